"""``plan``: show what a fit would do and cost, without any data."""

import argparse
import ast
import json

from ..privacy import privacy_report
from ..privacy.cost import NEIGHBORING_RELATIONS
from ._estimators import ESTIMATORS

_ONLY_FOR = {"classes": ("logistic", "network"), "components": ("mixture",)}


def _parameter(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # A word, such as the name of a sampler.


def add_arguments(parser):
    """Add this command's arguments."""
    parser.add_argument("estimator", choices=tuple(ESTIMATORS))
    parser.add_argument(
        "--rows", type=int, required=True, help="rows of the table, a public number"
    )
    parser.add_argument(
        "--columns", type=int, required=True, help="columns that reach the estimator"
    )
    parser.add_argument("--epsilon", type=float, default=1.0, help="(default: 1)")
    parser.add_argument("--delta", type=float, help="(default: min(1e-5, 0.1 / rows))")
    parser.add_argument("--sampler", help="a sampler's name (default: auto)")
    parser.add_argument(
        "--classes", type=int, help="number of classes, of classifiers (default: 2)"
    )
    parser.add_argument(
        "--components", help="number of components, of mixtures: an integer or auto (default: 1)"
    )
    parser.add_argument("--neighboring-relation", choices=sorted(NEIGHBORING_RELATIONS))
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        type=_parameter,
        action="append",
        default=[],
        help="any other parameter of the estimator, e.g. --set data_norm=2 --set sampler__friction=0.1",
    )
    parser.add_argument("--json", action="store_true", help="as a privacy report")


def run(options):
    """Return the plan, as text or JSON."""
    for name, estimators in _ONLY_FOR.items():
        if getattr(options, name) is not None and options.estimator not in estimators:
            raise ValueError(
                f"--{name} is for {' and '.join(estimators)}, not for {options.estimator}: leave it out."
            )
    given = {
        "epsilon": options.epsilon,
        "delta": options.delta,
        "sampler": options.sampler,
        "n_components": options.components and _parameter(f"={options.components}")[1],
        "neighboring_relation": options.neighboring_relation,
    }
    estimator = ESTIMATORS[options.estimator]()
    estimator.set_params(**{name: value for name, value in given.items() if value is not None})
    estimator.set_params(**dict(options.set))
    classes = {} if options.classes is None else {"n_classes": options.classes}
    plan = estimator.privacy_plan(options.rows, options.columns, **classes)
    if options.json:
        return json.dumps(privacy_report(plan), indent=2, allow_nan=False)
    return "\n".join([str(plan), *(f"Warning: {text}" for text in plan.warnings)])
