"""Which steps learn from rows without noise. Unknown steps are assumed to."""

import numpy as np
from scipy import special
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils._indexing import _get_column_indices

from ..preprocessing import DPImputer, DPOneHotEncoder
from ..privacy.surroundings import tool_of, what_breaks_the_rule, what_is_learnt

# Their fit reads only the number of columns, and each row is transformed by itself.
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
    "OneHotEncoder": "DPOneHotEncoder, or public categories with handle_unknown='ignore' and none of drop, "
    "min_frequency and max_categories",
    "OrdinalEncoder": "public categories with handle_unknown='use_encoded_value' and neither min_frequency "
    "nor max_categories",
    "FunctionTransformer": "a ufunc of NumPy or scipy.special of one argument, which transforms each entry "
    "by itself, without kw_args, and with check_inverse=False if there is an inverse_func",
    "RBFSampler": "a number as gamma",
    "MissingIndicator": "DPImputer(add_indicator=True), or features='all'",
}


def children(step):
    """Return [(name, step)] of a composite step, or None; a subclass may do more than fit what it holds."""
    own = type(step).__module__.startswith("skdpbayes.")
    if type(step) is Pipeline or (own and isinstance(step, Pipeline)):
        return list(step.steps)
    if type(step) is ColumnTransformer:
        held = [(name, one) for name, one, _ in step.transformers]
        return [*held, ("remainder", step.remainder)]
    if type(step) is FeatureUnion:
        return list(step.transformer_list)
    return None


def is_private(step):
    """Tell whether a step has a privacy budget."""
    return hasattr(step, "privacy_plan") and "epsilon" in step.get_params(deep=False)


def is_free(step):
    """Tell whether a private step spends nothing, whatever its budget and its table."""
    if isinstance(step, DPOneHotEncoder):
        lists = step.categories  # A dict has the lists of some columns.
        private = (isinstance(one, str) and one == "private" for one in lists)
        return isinstance(lists, list | tuple) and not any(private)
    return isinstance(step, DPImputer) and step.strategy == "constant"


def leaks(step, is_sparse=False):
    """Return one message for each step that may leak; ``is_sparse`` refers to the table.

    Steps that a private pipeline names in ``learns_nothing`` are left out.
    """
    fixed = getattr(step, "learns_nothing", None)
    return [text for path, text in _leaks(step, is_sparse, "") if path not in (fixed or ())]


def refuse_learning(pipeline):
    """Raise a TypeError if a step of a private pipeline learns from rows that are not in this process."""
    steps, fixed = pipeline.get_params(), pipeline.learns_nothing or ()
    found = [
        text
        for path, text in _leaks(pipeline, False, "")
        if path not in fixed and children(steps.get(path)) is None and path
    ]
    if found:
        raise TypeError(
            f"{' '.join(found)} X is a Dask collection, and only private steps read those: pass X.compute() "
            "if it fits. Nothing was read."
        )


def leaks_by_path(step):
    """Return {name of the step: message} of the same, whatever is named in ``learns_nothing``."""
    return dict(reversed(_leaks(step, False, "")))


def paths_without_budget(step, path=""):
    """Return the names of all steps that have no budget, those of inner steps joined by ``__``."""
    found = []
    for name, one in children(step) or ():
        if one is not None and not isinstance(one, str) and not is_private(one):
            found += [path + name, *paths_without_budget(one, f"{path}{name}__")]
    return found


def _leaks(step, is_sparse, path):
    """Return [(name of the step, message)]."""
    if step is None or isinstance(step, str):
        return []
    own, held = path.removesuffix("__"), children(step)
    if held is not None:
        told = [(own, text) for text in _selections(step) + _densities(step, is_sparse)]
        return told + [t for name, one in held for t in _leaks(one, is_sparse, f"{path}{name}__")]
    if is_private(step) or _learns_nothing(step):
        return []
    if tool := tool_of(step):
        return [(own, what_is_learnt(tool))]
    name = type(step).__name__
    remedy = _REMEDIES.get(name, "a step of skdpbayes, or one with public parameters")
    if own and (name == "FrozenEstimator" or not type(step).__module__.startswith("sklearn.")):
        remedy += (
            "; or, if it learns nothing from these rows and transforms each by itself and in its place, name "
            f"it in the private pipeline's learns_nothing=[{own!r}]"
        )
    return [(own, f"{name} may learn from the rows without noise: use {remedy}.")]


def refuse_tools(step):
    """Raise a ValueError if a step, or one inside it, fits rows that other rows select, repeat or weight."""
    inside = [] if step is None or isinstance(step, str) else [step]
    if hasattr(step, "get_params") and not isinstance(step, type):
        inside += step.get_params(deep=True).values()
    for one in inside:
        tool = tool_of(one)
        if tool is not None and tool.breaks_rule:
            raise ValueError(f"{what_breaks_the_rule(tool)} Nothing was read.")


def _selections(step):
    """Return messages about columns that are selected by what may depend on the rows."""
    if type(step) is not ColumnTransformer:
        return []
    return [
        f"the columns of {name} are selected by a function or by their types, which may depend on the rows, "
        "as a single text among numbers changes a type: use a list, or make_column_selector(pattern=...)."
        for name, _, columns in step.transformers
        if callable(columns) and not _reads_names_only(columns)
    ]


def refuse_selections_by_rows(step, X, header):
    """Raise a ValueError if a function selects other columns of a table than of its header.

    A plan knows the header only, and would not count a step that it takes to have no columns.
    """
    if isinstance(step, Pipeline) and step.steps:
        refuse_selections_by_rows(step.steps[0][1], X, header)
    for one in step.transformer_list if isinstance(step, FeatureUnion) else ():
        refuse_selections_by_rows(one[1], X, header)
    for name, _, columns in step.transformers if isinstance(step, ColumnTransformer) else ():
        if not callable(columns) or header is None:
            continue
        planned, chosen = (_get_column_indices(table, columns(table)) for table in (header, X))
        if list(planned) != list(chosen):
            raise ValueError(
                f"the function that selects the columns of {name} chooses others with rows than without: "
                "give a list of columns. Nothing was read by a private step."
            )


def _reads_names_only(selector):
    return (
        type(selector) is make_column_selector
        and selector.dtype_include is None
        and selector.dtype_exclude is None
    )


def _densities(step, is_sparse):
    """Return messages about ``sparse_output_``, a fitted attribute that tells whether entries are few."""
    if type(step) is not ColumnTransformer or not step.sparse_threshold > 0:
        return []
    makers = [type(one).__name__ for one in _leaves(step) if _may_be_sparse(one)]
    if not makers and not is_sparse:
        return []
    return [
        f"ColumnTransformer counts the entries of {makers[0] if makers else 'a sparse table'} to choose "
        "between sparse and dense output, and the choice reveals something about them: set its "
        "sparse_threshold=0, or sparse_output=False in its encoders. DPOneHotEncoder has the same number of "
        "entries in every row."
    ]


def _leaves(step):
    held = children(step)
    return [step] if held is None else [leaf for _, one in held for leaf in _leaves(one)]


def _may_be_sparse(step):
    """Tell whether a step turns dense tables into sparse ones with a private number of entries."""
    if type(step).__name__ in ("FeatureHasher", "HashingVectorizer"):
        return True
    asked = getattr(step, "sparse_output", False) or getattr(step, "sparse", False) is True
    return bool(asked) and not isinstance(step, DPOneHotEncoder)


def _learns_nothing(step):
    name, module = type(step).__name__, type(step).__module__
    if module.startswith("skdpbayes."):
        return name in ("BoundedScaler", "FormulaEncoder", "RowNormClipper")
    if not module.startswith("sklearn."):
        return False
    if name == "FunctionTransformer":
        return _is_elementwise(step)
    options = step.get_params(deep=False).values()
    if any(callable(value) and not isinstance(value, type) for value in options):
        return False
    if name in _LEARN_NOTHING:
        return True
    if name == "RBFSampler":
        return not isinstance(step.gamma, str)
    if name in ("OneHotEncoder", "OrdinalEncoder"):
        counts = step.min_frequency is not None or step.max_categories is not None
        # Errors and warnings must not reveal unknown categories either.
        tells = step.handle_unknown in ("error", "warn") or getattr(step, "drop", None) is not None
        return not (isinstance(step.categories, str) or counts or tells)
    if name == "SimpleImputer":
        return (
            step.strategy == "constant"
            and step.fill_value is not None
            and step.keep_empty_features
            and not step.add_indicator
        )
    return name == "MissingIndicator" and step.features == "all"


def _is_elementwise(step):
    """Tell whether a FunctionTransformer maps each entry by itself, and checks no inverse on the rows."""
    functions = [one for one in (step.func, step.inverse_func) if one is not None]
    checks = step.check_inverse and len(functions) == 2
    return all(map(is_known_ufunc, functions)) and not (checks or step.kw_args)


def is_known_ufunc(function):
    """Tell whether a function is one of NumPy's or SciPy's own that map one entry to one."""
    name = getattr(function, "__name__", "")
    known = isinstance(function, np.ufunc) and any(
        getattr(module, name, None) is function for module in (np, special)
    )
    return known and (function.nin, function.nout, function.signature) == (1, 1, None)
