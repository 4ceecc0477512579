"""The package as a whole: public names, versions, docstring examples, what an import costs."""

import ast
import doctest
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import sublinear
from sublinear._core.parallel import bounds_checked

PLACES = ("sublinear", "sublinear.semi_streaming", "sublinear.distributed")
PUBLIC = (
    "sublinear",
    "sublinear.data",
    "sublinear.datasets",
    "sublinear.primal_dual",
    "sublinear.semi_streaming",
    "sublinear.sources",
    "sublinear.theory",
    "sublinear.distributed",
)
OPTIONAL = ("tqdm", "matplotlib", "pandas", "dask")
MODULES = [module.name for module in pkgutil.walk_packages(sublinear.__path__, "sublinear.")]


def public_module(place):
    """Import a module; skip where what it needs is not installed."""
    if place == "sublinear.distributed":
        pytest.importorskip("distributed")
    return importlib.import_module(place)


def estimators(place):
    """Yield the public estimators of a module."""
    module = public_module(place)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) and issubclass(value, BaseEstimator):
            yield value


def python(code, *arguments):
    """Run code in an interpreter of its own; returns its standard output."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_public_names_exist_and_are_documented():
    assert len(set(sublinear.__all__)) == len(sublinear.__all__)
    for name in sublinear.__all__:
        value = getattr(sublinear, name)
        if callable(value):
            assert inspect.getdoc(value), name


def test_a_star_import_gives_the_public_names():
    names = {}
    exec("from sublinear import *", names)
    assert set(sublinear.__all__) <= set(names)


def test_version():
    from importlib.metadata import version

    assert sublinear.__version__ == version("sublinear")


def test_show_versions(capsys):
    sublinear.show_versions()
    shown = capsys.readouterr().out
    for word in (
        "sublinear",
        "python",
        "numpy",
        "scipy",
        "scikit-learn",
        "OpenMP",
        "threads",
        "pyarrow",
        "dask",
    ):
        assert word in shown
    assert f"bounds checks: {'yes' if bounds_checked() else 'no'}\n" in shown
    assert sublinear.__version__ in shown


def test_openmp_enabled_is_a_bool():
    assert isinstance(sublinear.openmp_enabled(), bool)


def documented(section, text):
    """Yield (name, type) of what a section of a numpydoc docstring lists."""
    _, _, rest = text.partition(f"\n{section}\n{'-' * len(section)}\n")
    body = re.split(r"\n\n\S.*\n--", rest)[0]
    for names, kind in re.findall(r"^(\w[\w, ]*) : (.*)$", body, re.MULTILINE):
        for name in names.split(", "):
            yield name, kind


@pytest.mark.parametrize("place", PLACES)
def test_parameters_and_their_defaults_are_documented(place):
    for estimator in estimators(place):
        text = inspect.getdoc(estimator)
        assert "%(" not in text
        for section in ("Attributes", "References", "Examples"):
            assert f"\n\n{section}\n----" in text, (estimator, section)
        kinds = dict(documented("Parameters", text))
        parameters = dict(inspect.signature(estimator).parameters)
        assert kinds.keys() == parameters.keys(), estimator
        for name, parameter in parameters.items():
            _, _, default = kinds[name].partition("default=")
            if parameter.default is not parameter.empty:
                assert ast.literal_eval(default) == parameter.default, (estimator, name)


@pytest.mark.parametrize("place", PLACES)
def test_methods_that_learn_tell_what_they_raise(place):
    for estimator in estimators(place):
        for name in ("fit", "partial_fit", "fit_stream"):
            method = inspect.getattr_static(estimator, name, None)
            if method is not None:
                text = inspect.getdoc(getattr(method, "__wrapped__", method)) or ""
                for section in ("Parameters", "Returns", "Raises"):
                    assert f"\n{section}\n---" in text, (estimator, name, section)


@pytest.mark.parametrize("name", MODULES)
def test_no_docstring_has_a_placeholder_left_or_a_long_line(name):
    if name.startswith("sublinear.distributed"):
        pytest.importorskip("distributed")
    if name == "sublinear.__main__":
        return
    for value in vars(importlib.import_module(name)).values():
        if getattr(value, "__module__", None) == name:
            members = vars(value).values() if inspect.isclass(value) else ()
            for thing in (value, *members):
                text = getattr(thing, "__doc__", None) or ""
                assert not re.search(r"%\((?!name\))\w+\)s", text), thing
                assert max(map(len, text.splitlines()), default=0) <= 100, thing


OF_ROWS = [one for one in estimators("sublinear") if one is not sublinear.PegasosStructured]


@pytest.mark.parametrize("estimator", OF_ROWS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fitted_attributes_are_documented(estimator, binary):
    model = estimator().fit(*binary)
    attributes = dict(documented("Attributes", inspect.getdoc(estimator)))
    for name in vars(model):
        if name.endswith("_") and not name.startswith("_"):
            assert name in attributes, name


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    if name.startswith("sublinear.distributed"):
        pytest.importorskip("distributed")
    if name != "sublinear.__main__":
        assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("place", PUBLIC)
def test_public_objects_have_examples(place):
    module = public_module(place)
    objects = [name for name in module.__all__ if callable(getattr(module, name))]
    docs = {name: inspect.getdoc(getattr(module, name)) for name in objects}
    example = re.compile(r"\nExamples\n--------\n(?s:.*)>>> ")
    assert [name for name in objects if not example.search(docs[name])] == []


@pytest.mark.parametrize("place", PUBLIC)
def test_public_objects_are_in_the_reference(place):
    page = Path(__file__).parents[1] / "docs/api/index.md"
    if not page.exists():
        pytest.skip("no docs beside the tests")
    listed = set(re.findall(r"^   ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
    module, prefix = public_module(place), f"{place}.".removeprefix("sublinear.")
    shared = set(sublinear.__all__) if prefix else {"__version__"}
    names = {
        f"{prefix}{name}"
        for name in module.__all__
        if name not in shared or getattr(module, name) is not getattr(sublinear, name)
    }
    assert names - listed == set()


PAGES = (
    "README.md",
    "docs/index.md",
    "docs/quickstart.md",
    "docs/guide.md",
    "docs/which_solver.md",
)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_examples_of_the_docs(page, tmp_path, monkeypatch):
    """The Python blocks of a page, one after another, with nothing but the page."""
    path = Path(__file__).parents[1] / page
    if not path.exists():
        pytest.skip(f"no {page} beside the tests")
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_import_needs_no_extras():
    code = """
import sys, json

class Missing:
    def find_spec(name, path=None, target=None):
        if name in sys.argv[1:]:
            raise ImportError(name)

sys.meta_path.insert(0, Missing)
import sublinear
X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
model = sublinear.SDCAClassifier(alpha=0.1, verbose=1).fit(X, y)
sublinear.show_versions()
print(json.dumps(model.predict(X).tolist()))
"""
    assert len(json.loads(python(code, *OPTIONAL).splitlines()[-1])) == 4


def test_import_loads_no_extras():
    code = """
import sys
import sklearn.linear_model  # what it loads is not ours
before = set(sys.modules)
import sublinear
print(*[name for name in sys.argv[1:] if name in set(sys.modules) - before])
"""
    assert python(code, *OPTIONAL).split() == []


def test_import_writes_nothing():
    assert python("import sublinear") == ""
