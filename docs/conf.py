"""The documentation site: ``make docs``."""

import angpn

project = "angpn"
author = "The angpn developers"
release = angpn.__version__
extensions = [
    "myst_parser",  # the pages are Markdown
    "sphinx.ext.autodoc",  # the API, from the docstrings
    "sphinx.ext.napoleon",  # which are in Google's style
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",  # runs the examples and shows what they print and draw
]
html_theme = "furo"
html_title = "angpn"
html_show_sphinx = False
html_show_copyright = False
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
napoleon_use_ivar = True  # attributes of a class in one list; named tuples would otherwise describe each twice
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": False}
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "matplotlib_animations": False,
    "download_all_examples": False,
    "within_subsection_order": "FileNameSortKey",
}
exclude_patterns = [
    "_build",
    "examples/*.ipynb",
    "examples/*.py",
    "examples/*.json",
    "examples/*.zip",
    "examples/*.md5",
]
# Pages link to files of the repository (results, pictures), which are no pages.
suppress_warnings = ["myst.xref_missing", "config.cache"]


def _skip(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds to every estimator by itself, and what is told twice."""
    added = name.endswith("_request") or name in ("get_metadata_routing", "set_output")
    told = name in ("embedding_", "layer_graphs_", "graph_")  # among the attributes of the class
    return skip or added or told


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", _skip)
