"""Which steps learn from rows without noise. What is not known is taken to."""

import numpy as np
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.pipeline import FeatureUnion, Pipeline

from ..preprocessing import DPImputer, DPOneHotEncoder

# They look at nothing but the number of columns, and handle each row by itself.
_LEARN_NOTHING = {
    "AdditiveChi2Sampler",
    "Binarizer",
    "FeatureHasher",
    "HashingVectorizer",
    "Normalizer",
    "PolynomialFeatures",
    "PolynomialCountSketch",
    "SkewedChi2Sampler",
}
_REMEDIES = {
    "StandardScaler": "DPQuantileScaler or BoundedScaler",
    "MinMaxScaler": "DPQuantileScaler or BoundedScaler",
    "MaxAbsScaler": "DPQuantileScaler or BoundedScaler",
    "RobustScaler": "DPQuantileScaler or BoundedScaler",
    "SimpleImputer": "DPImputer, or strategy='constant' with keep_empty_features=True",
    "OneHotEncoder": "DPOneHotEncoder, or public categories with handle_unknown='ignore' and neither "
    "min_frequency nor max_categories",
    "OrdinalEncoder": "public categories with handle_unknown='use_encoded_value' and neither min_frequency "
    "nor max_categories",
    "FunctionTransformer": "a ufunc of NumPy, which handles each entry by itself",
    "RBFSampler": "a number as gamma",
    "MissingIndicator": "DPImputer(add_indicator=True), or features='all'",
}


def children(step):
    """Return the (name, step) of what a composite holds, or None."""
    if isinstance(step, Pipeline):
        return list(step.steps)
    if isinstance(step, ColumnTransformer):
        held = [(name, one) for name, one, _ in step.transformers]
        return [*held, ("remainder", step.remainder)]
    if isinstance(step, FeatureUnion):
        return list(step.transformer_list)
    return None


def is_private(step):
    """Tell whether a step keeps to a budget by itself."""
    return hasattr(step, "privacy_plan") and "epsilon" in step.get_params(deep=False)


def is_free(step):
    """Tell whether a private step spends nothing, whatever its budget."""
    return isinstance(step, DPImputer) and step.strategy == "constant"


def leaks(step, is_sparse=False):
    """Return what is said of the steps that may leak, one text each; ``is_sparse`` is of the table."""
    if step is None or isinstance(step, str):
        return []
    held = children(step)
    if held is not None:
        inner = [text for _, one in held for text in leaks(one, is_sparse)]
        return _selections(step) + _densities(step, is_sparse) + inner
    if is_private(step) or _learns_nothing(step):
        return []
    name = type(step).__name__
    remedy = _REMEDIES.get(name, "a step of skdpbayes, or one with public parameters")
    return [f"{name} learns from the rows without noise, for all that is known: take {remedy}."]


def _selections(step):
    """Return what is said of columns that a function selects, which may look at the rows."""
    if not isinstance(step, ColumnTransformer):
        return []
    return [
        f"the columns of {name} are selected by a function, which may look at the rows: give a list, or "
        "make_column_selector."
        for name, _, columns in step.transformers
        if callable(columns) and not isinstance(columns, make_column_selector)
    ]


def _densities(step, is_sparse):
    """Return what is said of ``sparse_output_``, a fitted attribute that says whether entries are few."""
    if not isinstance(step, ColumnTransformer) or not step.sparse_threshold > 0:
        return []
    makers = [type(one).__name__ for one in _leaves(step) if _may_be_sparse(one)]
    if not makers and not is_sparse:
        return []
    return [
        f"ColumnTransformer counts the entries of {makers[0] if makers else 'a sparse table'} to choose "
        "between sparse and dense output, and the choice tells of them: give it sparse_threshold=0, or its "
        "encoders sparse_output=False. DPOneHotEncoder has as many entries in every row."
    ]


def _leaves(step):
    held = children(step)
    return [step] if held is None else [leaf for _, one in held for leaf in _leaves(one)]


def _may_be_sparse(step):
    """Tell whether a step makes dense tables sparse, with a number of entries that is private."""
    if type(step).__name__ in ("FeatureHasher", "HashingVectorizer"):
        return True
    asked = getattr(step, "sparse_output", False) or getattr(step, "sparse", False) is True
    return bool(asked) and not isinstance(step, DPOneHotEncoder)


def _learns_nothing(step):
    name, module = type(step).__name__, type(step).__module__
    if module.startswith("skdpbayes."):
        return name in ("BoundedScaler", "RowNormClipper")
    if not module.startswith("sklearn."):
        return False
    if name in _LEARN_NOTHING:
        return True
    if name == "FunctionTransformer":
        return step.func is None or isinstance(step.func, np.ufunc)
    if name == "RBFSampler":
        return not isinstance(step.gamma, str)
    if name in ("OneHotEncoder", "OrdinalEncoder"):
        counts = step.min_frequency is not None or step.max_categories is not None
        # Unknown categories must not show in an error or a warning either.
        tells = step.handle_unknown in ("error", "warn")
        return not (isinstance(step.categories, str) or counts or tells)
    if name == "SimpleImputer":
        return (
            step.strategy == "constant"
            and step.fill_value is not None
            and step.keep_empty_features
            and not step.add_indicator
        )
    return name == "MissingIndicator" and step.features == "all"
