"""Choosing the sampler of a path from public quantities.

Fisher scoring pays once the matrix that it releases says more than its noise: the second moments of the
rows have a mean eigenvalue of at most ``n R^2 / d``, their noise a norm of about ``nu = sqrt(2 d) sigma``. It
is chosen where

    n R^2 / d >= nu / 2,        i.e. about  n mu >= 2 d^(3/2),

and an underdamped chain in the coordinates as they are (SGHMC) elsewhere, where that chain is hardly
tempered, so that there is nothing to gain, and wherever an option or a target is not for Fisher scoring.
"""

import math
from functools import lru_cache

from .fisher import plan_fisher
from .hamiltonian import plan_hamiltonian
from .options import SamplerOptions

_WORTH = 0.5
_HARDLY_TEMPERED = 6.0
# A matrix of this many rows and columns takes a second or two to decompose.
_LARGEST_MATRIX = 2000


@lru_cache(maxsize=512)
def plan_automatic(bounds, n_samples, budget, options=SamplerOptions()):  # noqa: B008
    """Choose between SGFS and SGHMC, and plan the path.

    Parameters
    ----------
    bounds : TargetBounds
        Public bounds of the target.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost.
    options : SamplerOptions, default=SamplerOptions()
        What the user fixes.

    Returns
    -------
    plan : FisherPlan or HamiltonianPlan

    Raises
    ------
    ValueError
        If an option is out of range, or if the options cannot all hold.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_automatic
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(20, 1.0, 0.25, (0.1, 0.1), row_norm=1.0)
    >>> [plan_automatic(bounds, n, Budget(1.0, 1e-6)).sampler for n in (100, 100_000)]
    ['sghmc', 'sgfs']
    """
    plain = plan_hamiltonian(bounds, n_samples, budget, options)
    fixed = options.step_size is not None or options.step_decay or options.init != "zeros"
    wide = bounds.block_length > _LARGEST_MATRIX
    cold = options.temperature is None and plain.temperature <= _HARDLY_TEMPERED
    if fixed or wide or cold or bounds.row_norm is None or math.isinf(budget.epsilon):
        return plain
    plan = plan_fisher(bounds, n_samples, budget, options)
    average = n_samples * bounds.row_norm**2 / bounds.block_length
    noise = math.sqrt(2.0 * bounds.block_length) * plan.moment_noise
    return plan if average >= _WORTH * noise else plain
