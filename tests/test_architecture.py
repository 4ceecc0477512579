"""Imports run downwards only: every import and cimport of the package is read and held to that."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "sublinear"

# A module may import those of the layers above its own line, and those of PACKAGES from themselves.
LAYERS = (
    {"_core"},
    {
        "_solvers",
        "_documentation",
        "_fitted_parameters",
        "_result",
        "_threads",
        "_validation",
        "_files",
        "_version",
        "_warnings",
    },
    {"_labels"},
    {
        "_drive",
        "_dual_store_build",
        "_known_optima",
        "_readers",
        "_saddle_problems",
        "_sequences",
        "_show_versions",
    },
    {"_archive", "_callbacks", "data", "datasets", "sources"},
    {
        "_certified_model",
        "_checkpoint",
        "_classification",
        "_fit_method",
        "_newton_passes",
        "_second_order",
    },
    {"_linear_model", "_saddle", "theory", "_stream"},
    {"_kernel_machines", "_sequence_pegasos", "_streamed_sdca"},
    {
        "sdca",
        "pegasos",
        "kernel",
        "structured",
        "geometry",
        "margin",
        "soft_margin",
        "games",
        "primal_dual",
        "streaming",
        "semi_streaming",
        "_model_kernels",
    },
    {"distributed", "paths", "_model_file"},
    {"suggestions"},
    {"__init__"},
    {"cli"},
    {"__main__"},
)
PACKAGES = (
    "_core",
    "_kernel_machines",
    "_readers",
    "_streamed_sdca",
    "cli",
    "distributed",
    "sources",
)
EXTENDED = {"two_threads": "sdca"}  # by another file: the same solver with other schedules
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}

IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>[.\w]+)[ \t]+c?import[ \t]+(?P<names>\([^)]*\)|[^\n]+)"
    r"|c?import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
SOURCES = sorted(path for kind in ("py", "pyx", "pxd") for path in ROOT.rglob(f"*.{kind}"))
NAMES = [str(path.relative_to(ROOT)) for path in SOURCES]


def imported(path):
    """Return the dotted names that a file imports; those of sublinear down to the module."""
    found = set()
    for match in IMPORT.finditer(path.read_text(encoding="utf-8")):
        if match["modules"]:
            found.update(name.split()[0] for name in match["modules"].split(",") if name.strip())
        elif match["source"] in ("sublinear", "sublinear._core", "sublinear._solvers"):
            names = re.sub(r"#[^\n]*|[()]", " ", match["names"]).split(",")
            found.update(f"{match['source']}.{name.split()[0]}" for name in names if name.strip())
        else:
            found.add(match["source"])
    return found


def own_modules(path):
    """Return what a file imports of the package, as paths like ("_core", "line")."""
    return {
        tuple(name.split(".")[1:]) or ("__init__",)
        for name in imported(path)
        if name.split(".")[0] == "sublinear"
    }


def unit(module):
    """Return the layer's name of a module path; what is no module is a name of __init__."""
    return module[0] if module[0] in HEIGHT else "__init__"


def unit_of_file(path):
    return path.relative_to(ROOT).parts[0].split(".")[0]


def test_the_reader_finds_every_form_of_import(tmp_path):
    source = tmp_path / "example.pyx"
    source.write_text(
        "import math\nimport numpy as np, scipy.sparse as sp\ncimport numpy as cnp\n"
        "from sublinear import _readers, Result\nfrom sublinear._core.line cimport (\n"
        "    Line,\n    add,\n)\n    from sublinear._core import order  # late\nimport sublinear\n"
    )
    assert imported(source) == {
        "math",
        "numpy",
        "scipy.sparse",
        "sublinear._readers",
        "sublinear.Result",
        "sublinear._core.line",
        "sublinear._core.order",
        "sublinear",
    }


@pytest.mark.skipif(not SOURCES, reason="the sources are not here")
def test_every_source_has_a_layer():
    assert {"_core", "_solvers", "sdca"} <= {unit_of_file(path) for path in SOURCES}
    unknown = {unit_of_file(path) for path in SOURCES} - HEIGHT.keys()
    assert not unknown, f"give these modules their place in LAYERS: {sorted(unknown)}"


def test_meson_installs_every_python_module():
    listed = set(re.findall(r"'([\w/]+\.py)'", (ROOT / "meson.build").read_text()))
    present = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}
    elsewhere = {"_version.py", "_core/__init__.py", "_solvers/__init__.py"}
    assert listed - elsewhere == present - elsewhere


@pytest.mark.parametrize("path", SOURCES, ids=NAMES)
def test_imports_run_downwards(path):
    here = unit_of_file(path)
    for module in own_modules(path):
        below = HEIGHT[unit(module)] < HEIGHT[here] or here == unit(module) in PACKAGES
        below |= module == ("_solvers", EXTENDED.get(path.stem))
        assert below, f"{path.name} imports {'.'.join(module)}, which is not below it"


@pytest.mark.parametrize("path", SOURCES, ids=NAMES)
def test_no_relative_import_and_nothing_from_the_tests(path):
    for name in imported(path):
        assert not name.startswith(".")
        assert name.split(".")[0] not in ("tests", "reference", "conftest")


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if unit_of_file(path) == "_solvers"], ids=lambda p: p.name
)
def test_solvers_import_the_core_alone(path):
    extended = ("_solvers", EXTENDED.get(path.stem))
    assert {module[0] for module in own_modules(path) - {extended}} <= {"_core"}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_has_a_circle(package):
    below = {}
    for path in SOURCES:
        if unit_of_file(path) == package:
            own = [module for module in own_modules(path) if module[0] == package]
            own = {module[1] if len(module) > 1 else "__init__" for module in own} - {path.stem}
            below.setdefault(path.stem, set()).update(own)
    while below:
        free = {name for name, needs in below.items() if not needs & below.keys()}
        assert free, f"these modules import each other: {sorted(below)}"
        below = {name: needs for name, needs in below.items() if name not in free}


def test_nothing_but_line_and_its_keepers_knows_the_storages():
    """Other files of the core and the solvers handle Lines without asking how they are stored."""
    keepers = {"line.pxd", "classes.pxd", "matrix.pyx", "packed.pyx", "row_groups.pxd"}
    for path in SOURCES:
        if path.name not in keepers:
            assert not re.search(r"\b(DENSE|SPARSE)_FLOAT(32|64)", path.read_text("utf-8")), path


def test_no_quotient_of_integers_is_compiled():
    """The build's cdivision makes 1 / 8 a division of C integers: 0."""
    sources = [*ROOT.rglob("*.pyx"), *ROOT.rglob("*.pxd")]
    code = {path: re.sub(r'#.*|"""(?s:.*?)"""', "", path.read_text()) for path in sources}
    quotient = re.compile(r"(?<![\w.*])\d+ */ *\d+(?![\w.])")
    found = {path.name: quotient.findall(text) for path, text in code.items()}
    assert {name: quotients for name, quotients in found.items() if quotients} == {}


def test_import_loads_no_optional_package(tmp_path):
    program = (  # scikit-learn loads pandas where it is installed
        "import sys, sklearn.linear_model; before = set(sys.modules); import sublinear; "
        "optional = {'matplotlib', 'tqdm', 'dask', 'pandas', 'pyarrow'}; "
        "print(sorted(optional & (sys.modules.keys() - before)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"
