"""The package as a whole: public names, versions, docstring examples, what an import costs."""

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

ESTIMATORS = ("PegasosClassifier", "PegasosRegressor", "SDCAClassifier", "SDCARegressor")
OPTIONAL = ("tqdm", "matplotlib", "pandas", "dask")


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
    for word in ("sublinear", "python", "numpy", "scipy", "scikit-learn", "OpenMP", "threads"):
        assert word in shown
    assert f"bounds checks: {'yes' if bounds_checked() else 'no'}\n" in shown
    assert sublinear.__version__ in shown


def test_openmp_enabled_is_a_bool():
    assert isinstance(sublinear.openmp_enabled(), bool)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_documented(name):
    estimator = getattr(sublinear, name)
    text = inspect.getdoc(estimator)
    assert "%(" not in text
    for parameter in estimator().get_params():
        assert f"\n{parameter} : " in text, parameter
    for section in ("Parameters", "Attributes", "References", "Examples"):
        assert f"\n{section}\n----" in text


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fitted_attributes_are_documented(name, binary):
    estimator = getattr(sublinear, name)(alpha=0.1).fit(*binary)
    text = inspect.getdoc(estimator)
    for attribute in vars(estimator):
        if attribute.endswith("_") and not attribute.startswith("_"):
            assert f"\n{attribute} : " in text, attribute


MODULES = [module.name for module in pkgutil.walk_packages(sublinear.__path__, "sublinear.")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    if name.startswith("sublinear.distributed"):
        pytest.importorskip("distributed")
    if name != "sublinear.__main__":
        assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_have_examples(name):
    assert ">>> " in inspect.getdoc(getattr(sublinear, name))


PAGES = (
    "README.md",
    "docs/index.md",
    "docs/quickstart.md",
    "docs/guide.md",
    "docs/which_solver.md",
)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_examples_of_the_docs(page, binary, tmp_path, monkeypatch):
    """The Python blocks of a page, one after another; X, y and a model are there before each."""
    path = Path(__file__).parents[1] / page
    if not path.exists():
        pytest.skip(f"no {page} beside the tests")
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    X, y = binary
    model = sublinear.SDCAClassifier(alpha=0.1).fit(X, y)
    given = {"X": X, "y": y, "model": model, "SDCAClassifier": sublinear.SDCAClassifier}
    names = {}
    for block in blocks:
        names |= given
        exec(compile(block, page, "exec"), names)


def test_estimators_are_thin_scikit_learn_estimators():
    for name in ESTIMATORS:
        assert issubclass(getattr(sublinear, name), BaseEstimator)


def test_import_needs_no_extras():
    code = """
import sys, json
for name in sys.argv[1:]:
    sys.modules[name] = None  # importing it raises ImportError
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
