"""Types that annotations in several parts of the package share."""

from typing import Any, Literal, TypeAlias

import numpy as np

# An array, a data frame of pandas or polars, a SciPy sparse matrix, or a Dask collection.
MatrixLike: TypeAlias = Any
RandomStateLike: TypeAlias = int | np.random.RandomState | np.random.Generator | None
# What draws random numbers, of a seed or given.
GeneratorLike: TypeAlias = np.random.RandomState | np.random.Generator
Relation: TypeAlias = Literal["replace_one", "add_or_remove_one"]
Label: TypeAlias = bool | float | str
# What a mechanism is claimed to be, in an audit: (epsilon, delta)-private; mu-GDP; with normal scores, too.
Claim: TypeAlias = Literal["epsilon", "mu", "normal"]
