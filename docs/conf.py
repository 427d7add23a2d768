"""Configuration of the documentation: python -m sphinx -W -b html docs docs/_build/html"""

import re
from pathlib import Path

import skdpbayes

here = Path(__file__).parent

project = "skdpbayes"
author = "the skdpbayes developers"
copyright = f"2025, {author}"
version = release = skdpbayes.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "numpydoc",
    "matplotlib.sphinxext.plot_directive",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Differentially private Bayesian estimators for scikit-learn",
    "fixed_sidebar": True,
    "page_width": "1080px",
}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_copy_source = False

# The pages of classes list their members by the template, not by numpydoc.
autosummary_generate = True
numpydoc_show_class_members = False
autodoc_typehints = "none"

# Figures are drawn at build time; modules that they import lie in docs/code.
plot_working_directory = str(here / "code")
plot_formats = [("png", 120)]
plot_include_source = False
plot_html_show_source_link = False
plot_html_show_formats = False
plot_rcparams = {
    "figure.figsize": (6.4, 3.6),
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
}
plot_apply_rcparams = True

doctest_path = [str(here / "code")]
doctest_global_setup = """
import warnings
import numpy as np
from skdpbayes.exceptions import PrivacyWarning
warnings.simplefilter("ignore", PrivacyWarning)
try:
    import pandas
except ImportError:
    pandas = None
"""


def escape_trailing_underscores(app, what, name, obj, options, lines):
    """Keep shapes such as (n_features_in_,) from being read as references."""
    for i, line in enumerate(lines):
        lines[i] = re.sub(r"\((\w+)_,\)", r"(\1\\_,)", line)


def setup(app):
    """Run before numpydoc takes the docstrings apart."""
    app.connect("autodoc-process-docstring", escape_trailing_underscores, priority=100)
