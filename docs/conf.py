"""Sphinx configuration."""

import sublinear

project = "sublinear"
author = "the sublinear developers"
copyright = "2026, the sublinear developers"
release = sublinear.__version__
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
# The estimators' pages list their own methods; members of scikit-learn's mixins keep their home.
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "sublinear"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
PAGES_WITHOUT_SECTIONS = (
    "index",
    "install",
    "quickstart",
    "guide",
    "benchmarks",
    "architecture",
    "contributing",
    "changelog",
)
html_sidebars = {page: [] for page in PAGES_WITHOUT_SECTIONS}
html_show_sourcelink = False
