"""Configuration of the documentation: python -m sphinx -W -b html docs docs/_build/html"""

import doctest
import os
import re
import sys
import warnings
from pathlib import Path

from docutils import nodes
from joblib import cpu_count
from sphinx.util import logging

import skdpbayes
from skdpbayes.exceptions import PrivacyWarning

here = Path(__file__).parent
# What the pages, the gallery's order and the list of extensions import.
sys.path.insert(0, str(here / "code"))
# Figures are seeded, so that they are the same in every build.
warnings.filterwarnings("ignore", "A seeded random_state", PrivacyWarning)
# The same in the processes that run examples.
os.environ.setdefault("PYTHONWARNINGS", "ignore:A seeded random_state")

project = "skdpbayes"
author = "the skdpbayes developers"
copyright = author
version = release = skdpbayes.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "numpydoc",
    "matplotlib.sphinxext.plot_directive",
    "myst_nb",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "package_tree",
    "propositions",
    "results_table",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py"]

html_theme = "pydata_sphinx_theme"
html_title = "skdpbayes"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
html_copy_source = False
html_show_sourcelink = False

# The gallery: every example is run at build time, and one that fails stops the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(vote|two_modes|large_table)\.py$",
    "within_subsection_order": "gallery_order.Order",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_", "__repr__"),
    "image_scrapers": ("matplotlib",),
    "doc_module": ("skdpbayes",),
    "backreferences_dir": None,
    "show_memory": False,
    "min_reported_time": 0,
    "write_computation_times": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "default_thumb_file": None,
    "thumbnail_size": (640, 448),
    # As many examples at a time, each on the cores that its siblings leave.
    "parallel": cpu_count(),
}

# Dollars hold mathematics in the notebook, as in Jupyter.
myst_enable_extensions = ["dollarmath"]
# The notebook is run at build time as well, and committed without output.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

# The pages of classes list their members by the template, not by numpydoc.
autosummary_generate = True
numpydoc_show_class_members = False
autodoc_typehints = "none"
# Beside a class, its members are listed by their own names, of which a narrow column shows the beginning.
toc_object_entries_show_parents = "hide"

# Figures are drawn at build time; modules that they import lie in docs/code.
# Five inches of text of ten points can be read on a phone.
plot_working_directory = str(here / "code")
plot_formats = ["svg"]
plot_include_source = False
plot_html_show_source_link = False
plot_html_show_formats = False
plot_rcparams = {
    "figure.figsize": (5, 3.2),
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
}
plot_apply_rcparams = True

doctest_path = [str(here / "code")]
# Tables of pandas end a line of names with spaces, which editors take away.
doctest_default_flags = (
    doctest.ELLIPSIS
    | doctest.IGNORE_EXCEPTION_DETAIL
    | doctest.DONT_ACCEPT_TRUE_FOR_1
    | doctest.NORMALIZE_WHITESPACE
)
doctest_global_setup = """
import warnings
import numpy as np
from skdpbayes.exceptions import PrivacyWarning
warnings.simplefilter("ignore", PrivacyWarning)
try:
    import pandas
except ImportError:
    pandas = None
try:
    import dask.dataframe, dask
except ImportError:
    dask = None
"""


# Two backticks, a role, or mathematics between dollars.
RAW_MARKUP = re.compile(r"``|:\w+:`|\$[^$\n]*[\^\\][^$\n]*\$")


def escape_trailing_underscores(app, what, name, obj, options, lines):
    """Keep shapes such as (n_features_in_,) from being read as references."""
    for i, line in enumerate(lines):
        lines[i] = re.sub(r"\((\w+)_,\)", r"(\1\\_,)", line)


def plain_words(app, what, name, obj, options, lines):
    """Take out references to scikit-learn's own pages, which its methods of metadata routing have."""
    for i, line in enumerate(lines):
        line = line.replace(":term:`meta-estimator`", "meta-estimator")
        lines[i] = re.sub(":ref:`[^`<]*<metadata_routing>`", "scikit-learn user guide", line)


def link_parameters(app, what, name, obj, options, lines):
    """Make a link of the page that docstrings name; in a terminal its title is all that is of use."""
    for i, line in enumerate(lines):
        lines[i] = line.replace('"Parameters in detail"', ":doc:`/parameters`")


def drop_empty_sidebar(app, pagename, templatename, context, doctree):
    """Take away the navigation within a section from sections of one page."""
    pages = app.env.toctree_includes
    if pagename in pages[app.config.root_doc] and pagename not in pages:
        context["sidebars"] = []


def warn_of_raw_markup(app, doctree):
    """Warn of what readers would see as markup, and of labels that end in the row below theirs."""
    logger = logging.getLogger(__name__)
    as_it_is = nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw
    for text in doctree.findall(nodes.Text):
        if not isinstance(text.parent, (*as_it_is, nodes.comment)) and RAW_MARKUP.search(text):
            logger.warning("raw markup: %s", text, location=text.parent)
    for row in doctree.findall(nodes.row):
        label = row[0].astext()
        if label.endswith(","):
            logger.warning("a label goes on in the next row: %s", label, location=row)


def setup(app):
    """Run before numpydoc takes the docstrings apart, and before the theme looks at sidebars."""
    app.connect("autodoc-process-docstring", escape_trailing_underscores, priority=100)
    app.connect("autodoc-process-docstring", plain_words)
    app.connect("autodoc-process-docstring", link_parameters)
    app.connect("html-page-context", drop_empty_sidebar, priority=100)
    app.connect("doctree-read", warn_of_raw_markup)
