"""Draws for ArviZ: the one chain of a fit, cut into two, with names for its coordinates.

Split R-hat compares parts of a run with each other (Vehtari, Gelman, Simpson, Carpenter and Bürkner,
"Rank-normalization, folding, and localization: an improved R-hat for assessing convergence of MCMC",
Bayesian Analysis 2021). ArviZ cuts every chain in two, but gives nan for a single one; two halves of
the same chain are compared by quarters.
"""

# ArviZ computes nothing from shorter chains.
LEAST_DRAWS = 4


def to_arviz(variables, coords, plan, *, split=True):
    """Return named draws as ArviZ's container.

    Parameters
    ----------
    variables : dict of {str: (ndarray of shape (n_draws, ...), tuple of str)}
        Draws along a chain, and the names of the dimensions after the first.
    coords : dict of {str: array-like}
        Coordinates of these dimensions.
    plan : Plan
        What was done; its numbers become attributes.
    split : bool, default=True
        Whether the halves are two chains, given at least 8 draws.

    Returns
    -------
    data : arviz.InferenceData or xarray.DataTree
        With the group ``posterior``; a DataTree from ArviZ 1 on.

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
            "to_arviz needs ArviZ, which comes with the extra 'diagnostics': "
            'pip install "skdpbayes[diagnostics]"'
        ) from error
    n_draws = min(len(draws) for draws, _ in variables.values())
    if n_draws < LEAST_DRAWS:
        raise ValueError(
            f"diagnostics of a chain take at least {LEAST_DRAWS} draws, and this fit released "
            f"{n_draws}: see posterior_samples_ itself, or fit with a larger n_draws."
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
        neighboring_relation=plan.budget.neighboring_relation,
        temperature=plan.temperature,
        n_steps=plan.n_steps,
    )
    return data


def _cut(draws, n_chains):
    # What does not fit goes at the beginning, where a chain may still be on its way.
    kept = draws[len(draws) % n_chains :].copy()
    return kept.reshape(n_chains, -1, *draws.shape[1:])
