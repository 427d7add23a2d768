"""Effective sample sizes of chains, and named draws for ArviZ.

    ESS = n / (1 + 2 sum_k rho_k),    summed over pairs of lags while they are positive (Geyer, 1992)

Split R-hat compares parts of a run with each other (Vehtari, Gelman, Simpson, Carpenter and Bürkner,
"Rank-normalization, folding, and localization: an improved R-hat for assessing convergence of MCMC",
Bayesian Analysis 2021). ArviZ splits every chain in two, but returns nan for a single chain. The one chain of
a fit is therefore presented as two halves, of which ArviZ compares the quarters.
"""

import math

import numpy as np

# ArviZ has no diagnostics for shorter chains.
LEAST_DRAWS = 4
# Wanted effective size without privacy: means are then typically within a twentieth of a deviation.
_WANTED_SIZE = 400
_COLUMNS = 64


def effective_size(draws):
    """Return the smallest effective sample size of a chain's coordinates.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, ...)

    Returns
    -------
    size : float
    """
    flat = draws.reshape(len(draws), -1)
    parts = range(0, flat.shape[1], _COLUMNS)
    return min(_effective_sizes(flat[:, first : first + _COLUMNS]).min() for first in parts)


def _effective_sizes(draws):
    n = len(draws)
    spectrum = np.abs(np.fft.rfft(draws - draws.mean(axis=0), 2 * n, axis=0)) ** 2
    covariances = np.fft.irfft(spectrum, axis=0)[: n - n % 2]
    with np.errstate(invalid="ignore"):  # A coordinate that never moved gives nan.
        pairs = (covariances[::2] + covariances[1::2]) / covariances[0]
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    time = 2.0 * np.sum(np.where(positive, pairs, 0.0), axis=0) - 1.0
    return np.where(positive[0], n / np.maximum(time, 1.0 / n), 1.0)


def shortness(draws, plan):
    """Return a tuple with a warning if a chain without privacy is too short, else an empty one.

    With privacy the budget limits the length of a chain, and the plan warns of it.
    """
    n_draws = len(draws)
    if plan.budget.is_private or n_draws < 2 * LEAST_DRAWS:
        return ()
    size, wanted = effective_size(draws), min(_WANTED_SIZE, n_draws // 2)
    if size >= wanted:
        return ()
    longer = math.ceil(plan.n_steps * wanted / size)
    kind, whitened = type(plan.sampler).__name__, getattr(plan.sampler, "is_whitened", False)
    other = "" if whitened else ", or use sampler='auto', which needs fewer steps"
    return (
        f"in the coordinate that mixes slowest, the {n_draws} draws are worth about {size:.0f} independent "
        f"ones, fewer than {wanted}: take sampler={kind}(n_steps={longer}) or more steps instead of "
        f"{plan.n_steps:,}{other}.",
    )


def to_arviz(variables, coords, plan, *, split=True):
    """Return named draws in ArviZ's container.

    Parameters
    ----------
    variables : dict of {str: (ndarray of shape (n_draws, ...), tuple of str)}
        Draws along a chain, and the names of the dimensions after the first.
    coords : dict of {str: array-like}
        Coordinates of these dimensions.
    plan : Plan
        The plan of the fit; its numbers become attributes.
    split : bool, default=True
        Whether to present the halves as two chains if there are at least 8 draws.

    Returns
    -------
    data : arviz.InferenceData or xarray.DataTree
        Draws in the group ``posterior``; a DataTree since ArviZ 1.

    Raises
    ------
    ImportError
        If ArviZ is not installed.
    ValueError
        If there are fewer than 4 draws.
    """
    try:
        import arviz
    except ImportError as error:
        raise ImportError(
            "to_arviz requires ArviZ, which is part of the extra 'diagnostics': "
            'pip install "skdpbayes[diagnostics]"'
        ) from error
    n_draws = min(len(draws) for draws, _ in variables.values())
    if n_draws < LEAST_DRAWS:
        raise ValueError(
            f"diagnostics of a chain require at least {LEAST_DRAWS} draws, and this fit released "
            f"{n_draws}: use posterior_samples_ directly, or fit with a larger n_draws."
        )
    n_chains = 2 if split and n_draws >= 2 * LEAST_DRAWS else 1
    posterior = {name: _cut(draws, n_chains) for name, (draws, _) in variables.items()}
    names = {name: list(dims) for name, (_, dims) in variables.items()}
    if int(arviz.__version__.partition(".")[0]) >= 1:
        data = arviz.from_dict({"posterior": posterior}, coords=coords, dims=names)
    else:
        data = arviz.from_dict(posterior=posterior, coords=coords, dims=names)
    data["posterior"].attrs.update(
        inference_library="skdpbayes",
        sampler=plan.name,
        epsilon=plan.epsilon,
        delta=plan.delta,
        neighboring_relation=plan.asked.neighboring_relation,
        temperature=plan.temperature,
        n_steps=plan.n_steps,
    )
    return data


def _cut(draws, n_chains):
    # An odd draw is dropped at the beginning, where the chain may not have converged.
    kept = draws[len(draws) % n_chains :].copy()
    return kept.reshape(n_chains, -1, *draws.shape[1:])
