"""Sphinx configuration."""

import re

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
# Parameters: in the order of the signature, with a type, with a description.
numpydoc_validation_checks = {"PR03", "PR04", "PR07"}

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
    "which_solver",
    "streams",
    "distributed",
    "architecture",
    "contributing",
    "changelog",
)
html_sidebars = {page: [] for page in PAGES_WITHOUT_SECTIONS}
html_show_sourcelink = False


def keep_bars(app, what, name, thing, options, lines):
    """Escape the bars of norms: docstrings write |w|, which reStructuredText would look up."""
    literal_or_bar = re.compile(r"(``.*?``)|\|")
    lines[:] = [literal_or_bar.sub(lambda found: found[1] or r"\|", line) for line in lines]


def without_private(app, what, name, thing, options, signature, returned):
    """Leave private fields of dataclasses out of signatures."""
    if what == "class" and signature:
        signature = re.sub(r", _\w+(: [^,)]+)?( = [^,)]+)?", "", signature)
    return signature, returned


def without_fields(app, what, name, thing, skip, options):
    """Leave out the fields of named tuples: they are among the attributes."""
    return True if type(thing).__name__ == "_tuplegetter" else None


def setup(app):
    """Register what this site adds to Sphinx."""
    app.connect("autodoc-skip-member", without_fields)
    app.connect("autodoc-process-signature", without_private)
    app.connect("autodoc-process-docstring", keep_bars, priority=900)  # after numpydoc
