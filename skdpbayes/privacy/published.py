"""Published numbers to compare with. **Nothing in the package relies on them.**

Wang, Fienberg and Smola (2015), one exact posterior sample, ``|log p(z | theta)| <= B`` for all records
and parameters:

    epsilon = 4 B

Ryffel, Bach and Pointcheval (2022), last iterate of SGLD on random minibatches, here with the potential
``U`` as everywhere in this package, strong convexity ``m``, equal steps ``eta``, noise ``N(0, 2 eta tau I)``
and ``s`` the sensitivity of ``U``'s gradient: a Renyi divergence of order ``alpha`` of at most

    alpha s^2 / (m tau) (1 - exp(-m eta T / 2))
"""

import math


def wang_epsilon_if_exact(
    log_likelihood_bound: float, temperature: float = 1.0, n_draws: int = 1
) -> float:
    """Epsilon of exact posterior samples by the classical argument, at delta = 0.

    It holds only if the draws follow the posterior exactly, which the draws of a chain do not, and if the
    bound holds at every possible parameter.

    Parameters
    ----------
    log_likelihood_bound : float
        ``B >= |log p(z | theta)|`` for every possible record and parameter.
    temperature : float, default=1.0
        The likelihood is taken to the power of ``1 / temperature``.
    n_draws : int, default=1

    Returns
    -------
    epsilon : float

    Raises
    ------
    ValueError
        If the bound is negative, or the temperature or the number of draws is not positive.

    References
    ----------
    .. [1] Y.-X. Wang, S. E. Fienberg and A. Smola, "Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo", ICML 2015.

    Examples
    --------
    Logits of at most 10 either way:

    >>> import numpy as np
    >>> from skdpbayes.privacy import wang_epsilon_if_exact
    >>> round(wang_epsilon_if_exact(np.log1p(np.exp(10.0)), temperature=40.0), 3)
    1.0
    """
    if not (log_likelihood_bound >= 0 and temperature > 0 and n_draws > 0):
        raise ValueError(
            "log_likelihood_bound must be at least 0, temperature and n_draws positive; got "
            f"{log_likelihood_bound}, {temperature} and {n_draws}."
        )
    return float(4.0 * n_draws * log_likelihood_bound / temperature)


def ryffel_epsilon_not_a_guarantee(
    n_steps: int,
    step_size: float,
    sensitivity: float,
    curvature: float,
    temperature: float,
    delta: float,
) -> float:
    """Epsilon that a published theorem states for the last iterate of SGLD on random minibatches.

    **Not a guarantee.** With the full table at every step it is true, but with small steps up to twice as
    large (in ``mu^2``) as necessary. On random batches a single step can have a larger Rényi divergence than
    the theorem states, as the documentation shows under "Claims in the papers".

    Parameters
    ----------
    n_steps : int
    step_size : float
        ``eta``, with ``theta`` moving by ``eta`` times the gradient of ``U``.
    sensitivity : float
        ``s``, the sensitivity of the gradient of ``U``, in which the batch stands for the table.
    curvature : float
        ``m``, the least curvature of ``U``.
    temperature : float
        ``tau``; the noise has variance ``2 eta tau``.
    delta : float
        In (0, 1).

    Returns
    -------
    epsilon : float
        Obtained by the conversion that the authors use, ``log(1 / delta) / (alpha - 1)``, at the best order.

    Raises
    ------
    ValueError
        If a number is not positive, or delta not in (0, 1).

    References
    ----------
    .. [1] T. Ryffel, F. Bach and D. Pointcheval, "Differential privacy guarantees for stochastic gradient
       Langevin dynamics", 2022.

    Examples
    --------
    >>> from skdpbayes.privacy import ryffel_epsilon_not_a_guarantee
    >>> round(ryffel_epsilon_not_a_guarantee(100, 0.1, 0.2, 1.0, 1.0, 1e-5), 3)
    1.392
    """
    if not min(n_steps, step_size, sensitivity, curvature, temperature) > 0 or not 0 < delta < 1:
        raise ValueError("all numbers must be positive, and delta below 1.")
    forgotten = -math.expm1(-curvature * step_size * n_steps / 2.0)
    slope = sensitivity**2 / (curvature * temperature) * forgotten
    # min over alpha of alpha slope + log(1 / delta) / (alpha - 1).
    return slope + 2.0 * math.sqrt(slope * -math.log(delta))
