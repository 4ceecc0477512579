"""The command line as its users meet it."""

import csv
import importlib.util
import json
import os
import re
import subprocess
import sys
import warnings
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import sublinear
from sublinear import cli, load_model
from sublinear._model_file import write_model
from sublinear._streamed_sdca.solver import StreamedSDCA
from sublinear.cli import _compare, _console, _fit, _predict
from sublinear.datasets import make_sparse_classification
from sublinear.semi_streaming import SemiStreamingEnclosingBall, SemiStreamingPerceptron
from sublinear.sources import ArraySource, NpzSource, ParquetSource

FIT = ["--alpha", "0.01", "--seed", "0", "--quiet"]


@pytest.fixture(scope="module")
def rows():
    return make_sparse_classification(200, 60, row_entries=8, random_state=0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def train(folder, rows):
    """The name of a training file."""
    dump_svmlight_file(*rows, "train.svm", zero_based=False)
    return "train.svm"


@pytest.fixture
def run(capsys):
    """Return a function that runs a command and returns its status, output and error text."""

    def run(*arguments):
        try:
            status = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = stop.code
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def fails(run):
    """Return a function that runs a command and checks that it ends with one line of error."""

    def fails(*arguments):
        status, out, err = run(*arguments)
        assert status == 2
        assert out == ""
        assert err.startswith("sublinear: error: ")
        assert err.count("\n") == 1
        return err

    return fails


class TestFitAndPredict:
    def test_labels_one_a_line(self, run, train, rows):
        assert run("fit", train, "-o", "model", *FIT) == (0, "", "")
        status, out, err = run("predict", "model", train)
        assert status == 0
        predicted = np.array(out.split(), dtype=int)
        wrong = np.count_nonzero(predicted != rows[1])
        assert err == f"error rate {wrong / 200:.4f} ({wrong} of 200)\n"
        assert wrong < 60

    def test_result_is_printed(self, run, train):
        status, out, _ = run("fit", train, "-o", "model", "--alpha", "0.01", "--seed", "0")
        assert status == 0
        for word in ("converged", "certified gap", "passes", "feature values read", "wrote model"):
            assert word in out

    def test_same_as_in_python(self, run, train):
        run("fit", train, "-o", "model", *FIT)
        X, y = sublinear.datasets.load(train)
        model = sublinear.SDCAClassifier(alpha=0.01, random_state=0).fit(X, y)
        np.testing.assert_array_equal(load_model("model").coef_, model.coef_)

    def test_options_reach_the_estimator(self, run, train):
        options = ["--solver", "pegasos", "--loss", "logistic", "--tol", "0.5", "--max-iter", "7"]
        options += ["--max-accesses", "100000", "--no-intercept", "--jobs", "1"]
        status, _, _ = run("fit", train, "-o", "model", *FIT, *options)
        assert status == 0
        model = load_model("model")
        assert isinstance(model, sublinear.PegasosClassifier)
        found = model.get_params()
        expected = {"loss": "logistic", "tol": 0.5, "max_iter": 7, "max_accesses": 100_000}
        expected |= {"fit_intercept": False, "n_jobs": 1, "alpha": 0.01, "random_state": 0}
        assert {name: found[name] for name in expected} == expected

    @pytest.mark.parametrize("solver", ["sdca", "pegasos"])
    def test_balanced_classes(self, run, fails, folder, solver):
        X = np.random.default_rng(0).standard_normal((100, 3))
        np.savez("a.npz", X=X, y=X[:, 0] > 1)
        fit = ["fit", "a.npz", "-o", "model", *FIT, "--solver", solver, "--tol", "0.05"]
        assert run(*fit, "--class-weight", "balanced")[0] == 0
        kind = {"sdca": sublinear.SDCAClassifier, "pegasos": sublinear.PegasosClassifier}[solver]
        same = kind(alpha=0.01, tol=0.05, random_state=0, class_weight="balanced")
        np.testing.assert_array_equal(load_model("model").coef_, same.fit(X, X[:, 0] > 1).coef_)
        regression = ["--task", "regression", "--class-weight", "balanced"]
        assert "only for classification" in fails(*fit, *regression)
        assert "invalid choice" in fails(*fit, "--class-weight", "2")

    def test_balanced_classes_of_one_pass(self, run, fails, train, rows, monkeypatch):
        fit = ["fit", train, "-o", "model", *FIT, "--solver", "svrg", "--class-weight", "balanced"]
        assert run(*fit)[0] == 0
        assert load_model("model").class_weight == "balanced"
        monkeypatch.setattr(_fit, "read_data", lambda *_: pytest.fail("rows are read"))
        assert "svrg with --stream sees labels as they come" in fails(*fit, "--stream")

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    @pytest.mark.parametrize("labels", [("no", 'a "big", yes'), ("a", "b", "c")])
    def test_scores_of_classes(self, run, fails, folder, stream, labels):
        X = np.random.default_rng(0).standard_normal((60, 3))
        np.savez("a.npz", X=X, y=np.array(labels)[np.argmax(X[:, : len(labels)], axis=1)])
        assert run("fit", "a.npz", "-o", "model", *FIT, "--loss", "logistic", *stream)[0] == 0
        model, predict = load_model("model"), ["predict", "model", "a.npz", *stream]
        _, labelled, rate = run(*predict)
        for option, expected, classes in (
            ("--probabilities", model.predict_proba(X), model.classes_),
            ("--decision", model.decision_function(X), model.classes_[len(labels) == 2 :]),
        ):
            assert run(*predict, option, "-o", "scores.csv") == (0, "", rate)
            written = (folder / "scores.csv").read_text()
            assert run(*predict, option) == (0, written, rate)
            names, *rows = csv.reader(written.splitlines())
            assert names == classes.tolist()
            np.testing.assert_array_equal(np.array(rows, float).T, np.atleast_2d(expected.T))
        assert labelled.splitlines() == model.predict(X).tolist()
        assert "not allowed with" in fails(*predict, "--probabilities", "--decision")

    def test_scores_that_a_model_has_not(self, run, fails, train, monkeypatch):
        monkeypatch.setattr(_predict, "_rows_for", lambda *_: pytest.fail("rows are read"))
        run("fit", train, "-o", "hinge", *FIT)
        said = fails("predict", "hinge", train, "--probabilities")
        assert "a SDCAClassifier with the loss hinge has no probabilities" in said
        assert "--loss logistic" in said
        run("fit", train, "-o", "numbers", *FIT, "--loss", "squared")
        for option in ("--probabilities", "--decision"):
            assert "no classes" in fails("predict", "numbers", train, option)
        X, y = [[[1.0], [2.0]]], [["a", "b"]]
        sublinear.save_model(sublinear.SequencePegasos(alpha=1.0, tol=0.5).fit(X, y), "chain")
        for option in ("--probabilities", "--decision"):
            assert "no scores of single rows" in fails("predict", "chain", train, option)

    def test_models_with_kernels(self, run, fails, folder):
        X = np.random.default_rng(0).standard_normal((30, 2))
        np.savez("a.npz", X=X, y=X[:, 0] > 0)
        machine = sublinear.KernelSDCAClassifier(random_state=0).fit(X, X[:, 0] > 0)
        ball = sublinear.MinimumEnclosingBall(random_state=0).fit(X[:20])
        for model in (machine, ball):
            sublinear.save_model(model, "model")
            status, out, err = run("predict", "model", "a.npz")
            assert (status, out.split()) == (0, [str(label) for label in model.predict(X).tolist()])
            assert err.startswith("error rate") == (model is machine)
            assert model is machine or err == ""
        assert "no classes" in fails("predict", "model", "a.npz", "--decision")

    def test_models_of_passes(self, run, fails, folder):
        X = np.random.default_rng(0).standard_normal((40, 3))
        np.savez("a.npz", X=X, y=X[:, 0] > 0)
        source, options = ArraySource(X, X[:, 0] > 0), {"epsilon": 0.3, "random_state": 0}
        model = SemiStreamingPerceptron(**options).fit_stream(source)
        sublinear.save_model(model, "model")
        assert "materialize(source)" in fails("predict", "model", "a.npz")
        sublinear.save_model(model.materialize(source), "model")
        status, out, err = run("predict", "model", "a.npz")
        assert (status, out.split()) == (0, [str(label) for label in model.predict(X)])
        assert err.startswith("error rate")
        sublinear.save_model(SemiStreamingEnclosingBall(**options).fit(X), "ball")
        assert "predicts nothing; load its center_ from Python" in fails("predict", "ball", "a.npz")

    def test_scores_of_classes_are_not_those_of_pairs(self, run, folder):
        X = np.random.default_rng(0).standard_normal((40, 4))
        np.savez("a.npz", X=X)
        settings = {"decision_function_shape": "ovo", "random_state": 0}
        model = sublinear.KernelSDCAClassifier(**settings).fit(X, X.argmax(axis=1))
        sublinear.save_model(model, "model")
        names, *found = csv.reader(run("predict", "model", "a.npz", "--decision")[1].splitlines())
        assert names == ["0", "1", "2", "3"]
        expected = model.set_params(decision_function_shape="ovr").decision_function(X)
        np.testing.assert_array_equal(np.array(found, float), expected)

    def test_regression_by_pegasos(self, run, train):
        options = ["--solver", "pegasos", "--task", "regression", "--tol", "0.5"]
        assert run("fit", train, "-o", "model", *FIT, *options)[0] == 0
        assert isinstance(load_model("model"), sublinear.PegasosRegressor)

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    def test_a_loss_of_regression_needs_no_task(self, run, train, stream):
        assert run("fit", train, "-o", "model", *FIT, "--loss", "squared", *stream)[0] == 0
        assert isinstance(load_model("model"), sublinear.SDCARegressor)

    def test_one_pass_of_regression(self, run, folder):
        X = np.random.default_rng(0).normal(size=(300, 3))
        np.savez(folder / "numbers.npz", X=X, y=X[:, 0] + 0.25)
        status, out, err = run(
            "fit", "numbers.npz", "-o", "model", "--solver", "svrg", "--seed", "0"
        )
        assert (status, err) == (0, "") and "StreamingSVRGRegressor, squared loss" in out
        assert load_model("model").coef_.round(2).tolist() == [1, 0, 0]

    def test_limit_before_tol_warns_in_one_line(self, run, train):
        options = ["--tol", "1e-12", "--max-iter", "1"]
        status, _, err = run("fit", train, "-o", "model", *FIT, *options)
        assert status == 0
        assert err.startswith("sublinear: warning: ")
        assert err.count("\n") == 1

    def test_a_warning_is_shown_once(self, capsys):
        def warn(_):
            warnings.simplefilter("always")
            for text in ("one", "other", "one"):
                warnings.warn(text, UserWarning, stacklevel=1)

        assert cli._status_of(SimpleNamespace(run=warn)) == 0
        assert capsys.readouterr().err == "sublinear: warning: one\nsublinear: warning: other\n"

    def test_predictions_into_a_file(self, run, train):
        run("fit", train, "-o", "model", *FIT)
        _, expected, _ = run("predict", "model", train)
        status, out, err = run("predict", "model", train, "-o", "labels.txt")
        assert (status, out) == (0, "")
        assert "error rate" in err
        with open("labels.txt") as stream:
            assert stream.read() == expected

    def test_regression(self, run, folder):
        X = np.random.default_rng(0).standard_normal((100, 3))
        np.savez("data.npz", X=X, y=X @ [1.0, 2, 3])
        status, _, _ = run("fit", "data.npz", "-o", "model", "--alpha", "1e-4", "--quiet")
        assert status == 0
        assert isinstance(load_model("model"), sublinear.SDCARegressor)
        status, out, err = run("predict", "model", "data.npz")
        assert status == 0
        np.testing.assert_allclose(np.array(out.split(), float), X @ [1.0, 2, 3], atol=0.2)
        assert float(err.removeprefix("R2 ")) > 0.99

    def test_text_labels_from_csv(self, run, folder):
        lines = [
            f"{number},{-number},{'größer' if number > 0 else 'else'}" for number in (-2, -1, 1, 2)
        ]
        (folder / "a.csv").write_text("x,z,size\n" + "\n".join(lines), encoding="utf-8")
        assert run("fit", "a.csv", "-o", "model", *FIT)[0] == 0
        assert run("predict", "model", "a.csv") == (
            0,
            "else\nelse\ngrößer\ngrößer\n",
            "error rate 0.0000 (0 of 4)\n",
        )

    def test_labels_of_which_some_are_numbers(self, run, fails, folder):
        (folder / "a.csv").write_text("1,0,1\n2,1,unk\n-1,0,1\n3,2,unk\n")
        fit = ["fit", "a.csv", "-o", "model", "--stream", *FIT]
        assert "a.csv, line 2: column 3, the label: 'unk'" in (error := fails(*fit))
        assert "--text-labels" in error
        assert run(*fit, "--text-labels")[0] == 0
        assert load_model("model").classes_.tolist() == ["1", "unk"]
        assert run("predict", "model", "a.csv")[2] == "error rate 0.0000 (0 of 4)\n"

    def test_rows_without_labels(self, run, folder):
        (folder / "a.csv").write_text("1,0,3\n2,1,5\n-1,0,3\n-2,1,5\n")
        assert run("fit", "a.csv", "-o", "model", *FIT)[0] == 0
        (folder / "b.csv").write_text("1,0\n-2,1\n")
        for stream in ([], ["--stream"]):
            status, out, err = run("predict", "model", "b.csv", "--label-column", "none", *stream)
            assert (status, err) == (0, "")
            assert len(out.split()) == 2 and set(out.split()) <= {"3", "5"}

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    def test_columns_are_found_by_their_names(self, run, fails, folder, stream):
        (folder / "a.csv").write_text("x,z,kind\n1,5,a\n-1,5,b\n2,4,a\n-2,4,b\n")
        assert run("fit", "a.csv", "-o", "model", *FIT, *stream)[0] == 0
        (folder / "b.csv").write_text("kind,z,x\na,5,1\nb,5,-1\n")
        expected = (0, "a\nb\n", "error rate 0.0000 (0 of 2)\n")
        assert run("predict", "model", "b.csv", "--label-column", "kind") == expected
        (folder / "c.csv").write_text("1,5,a\n-1,5,b\n")
        assert run("predict", "model", "c.csv") == expected
        for header, words in (("x,w", "no feature columns named 'z'"), ("x,x", "several")):
            (folder / "d.csv").write_text(f"{header},kind\n1,5,a\n")
            assert words in fails("predict", "model", "d.csv")

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    def test_rows_without_labels_are_told_by_their_columns(self, run, fails, folder, stream):
        (folder / "a.csv").write_text("x,z,kind\n1,5,a\n-1,5,b\n2,4,a\n-2,4,b\n")
        assert run("fit", "a.csv", "-o", "model", *FIT, *stream)[0] == 0
        expected = (0, "a\nb\n", "")
        for text in ("x,z\n1,5\n-1,5\n", "n,z,x\n7,5,1\n8,5,-1\n", "1,5\n-1,5\n"):
            (folder / "b.csv").write_text(text)
            assert run("predict", "model", "b.csv", *stream) == expected
        (folder / "b.csv").write_text("n,z,x,kind\n7,5,1,a\n8,5,-1,b\n")
        scored = (0, "a\nb\n", "error rate 0.0000 (0 of 2)\n")
        assert run("predict", "model", "b.csv", *stream) == scored
        (folder / "b.csv").write_text("n,x\n7,1\n")
        assert "no feature columns named 'z'" in fails("predict", "model", "b.csv", *stream)
        (folder / "b.csv").write_text("1,5,3,9\n")
        err = fails("predict", "model", "b.csv", *stream)
        assert "3 features, the model 2; if it has no labels, give --label-column none" in err
        for given in ("last", "none"):  # as told
            (folder / "b.csv").write_text("1,5\n-1,5\n")
            status = run("predict", "model", "b.csv", "--label-column", given, *stream)[0]
            assert status == (0 if given == "none" else 2)

    def test_label_column_by_number_and_name(self, run, folder):
        (folder / "a.csv").write_text("x,kind,z\n1,a,2\n-1,b,-2\n")
        for column in ("1", "-2", "kind"):
            status, _, _ = run("fit", "a.csv", "-o", "model", *FIT, "--label-column", column)
            assert status == 0
            assert load_model("model").classes_.tolist() == ["a", "b"]

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    @pytest.mark.parametrize("column", ["first", "0", "-3", "kind"])
    def test_labels_are_looked_for_where_they_were_at_the_fit(self, run, folder, stream, column):
        header = "kind,x,z\n" if column == "kind" else ""
        (folder / "a.csv").write_text(f"{header}3,1,5\n4,-1,5\n3,2,4\n4,-2,4\n")
        fit = ["fit", "a.csv", "-o", "model", *FIT, "--label-column", column, *stream]
        assert run(*fit)[0] == 0
        scored = (0, "3\n4\n", "error rate 0.0000 (0 of 2)\n")
        for text in ("3,1,5\n4,-1,5\n", "kind,x,z\n3,1,5\n4,-1,5\n"):
            (folder / "b.csv").write_text(text)
            assert run("predict", "model", "b.csv", *stream) == scored
        (folder / "b.csv").write_text("1,5\n-1,5\n")
        assert run("predict", "model", "b.csv", *stream) == (0, "3\n4\n", "")
        if header:
            (folder / "b.csv").write_text("n,z,kind,x\n0,5,3,1\n0,5,4,-1\n")
            assert run("predict", "model", "b.csv", *stream) == scored

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    def test_weights_count_as_copies(self, run, folder, stream):
        (folder / "a.csv").write_text("x,w,z,kind\n1,2,5,a\n-1,1,2,b\n2,0,1,b\n-2,1,4,b\n")
        (folder / "b.csv").write_text("x,z,kind\n1,5,a\n1,5,a\n-1,2,b\n-2,4,b\n")
        tight = ["--tol", "1e-9", *FIT, *stream]
        assert run("fit", "a.csv", "-o", "a", "--weight-column", "w", *tight)[0] == 0
        assert run("fit", "b.csv", "-o", "b", *tight)[0] == 0
        model = load_model("a")
        assert model.feature_names_in_.tolist() == ["x", "z"]
        np.testing.assert_allclose(model.coef_, load_model("b").coef_, rtol=1e-3, atol=1e-6)

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    @pytest.mark.parametrize("header", ["x,w,z,kind\n", ""])
    def test_weights_are_looked_for_where_they_were_at_the_fit(self, run, folder, stream, header):
        (folder / "a.csv").write_text(f"{header}1,2,5,a\n-1,1,5,b\n2,1,4,a\n-2,1,4,b\n")
        fit = ["fit", "a.csv", "-o", "model", *FIT, "--weight-column", "1", *stream]
        assert run(*fit)[0] == 0
        scored = (0, "a\nb\n", "error rate 0.0000 (0 of 2)\n")
        for text in (
            "1,0,5,a\n-1,9,5,b\n",
            "x,w,z,kind\n1,0,5,a\n-1,9,5,b\n",
            "x,z,kind\n1,5,a\n-1,5,b\n",
            "1,5,a\n-1,5,b\n",
        ):
            (folder / "b.csv").write_text(text)
            assert run("predict", "model", "b.csv", *stream) == scored
        unlabelled = ["1,5\n-1,5\n"]
        if header:
            unlabelled += ["w,x,z\n0,1,5\n9,-1,5\n", "x,z,w\n1,5,0\n-1,5,9\n"]
            (folder / "b.csv").write_text("kind,z,n,x,w\na,5,7,1,0\nb,5,7,-1,9\n")
            assert run("predict", "model", "b.csv", *stream) == scored
        for text in unlabelled:
            (folder / "b.csv").write_text(text)
            assert run("predict", "model", "b.csv", *stream) == (0, "a\nb\n", "")

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    def test_weights_where_the_options_say(self, run, fails, folder, stream):
        (folder / "a.csv").write_text("1,5,a\n-1,5,b\n2,4,a\n-2,4,b\n")
        assert run("fit", "a.csv", "-o", "model", *FIT, *stream)[0] == 0
        (folder / "b.csv").write_text("9,1,5,a\n9,-1,5,b\n")
        predict = ["predict", "model", "b.csv", *stream]
        assert run(*predict, "--weight-column", "first")[1:] == (
            "a\nb\n",
            "error rate 0.0000 (0 of 2)\n",
        )
        assert "3 features, the model 2" in fails(*predict, "--weight-column", "none")
        assert "no column named 'w'" in fails(*predict, "--weight-column", "w")
        (folder / "b.csv").write_text("9\n")
        assert "the labels and the weights" in fails(*predict, "--weight-column", "0")

    @pytest.mark.parametrize("weight", [9, -1, "first"])
    def test_a_model_that_tells_no_place_of_weights(self, run, folder, weight):
        """Of a stranger."""
        X, y = np.array([[1.0, 5], [-1, 5], [2, 4], [-2, 4]]), [3, 4, 3, 4]
        notes = {"label_column": 2, "weight_column": weight, "weight_name": ["w"]}
        write_model(sublinear.SDCAClassifier(alpha=0.01).fit(X, y), "model", notes)
        (folder / "b.csv").write_text("1,5,3\n-1,5,4\n")
        assert run("predict", "model", "b.csv")[2] == "error rate 0.0000 (0 of 2)\n"

    @pytest.mark.parametrize(
        "notes", [{}, {"label_column": 9}, {"label_column": "first", "label_name": 3}]
    )
    def test_a_model_that_tells_no_place_of_labels(self, run, folder, notes):
        """Of a program, or of a stranger."""
        X, y = np.array([[1.0, 5], [-1, 5], [2, 4], [-2, 4]]), [3, 4, 3, 4]
        write_model(sublinear.SDCAClassifier(alpha=0.01).fit(X, y), "model", notes)
        (folder / "b.csv").write_text("1,5,3\n-1,5,4\n")
        assert run("predict", "model", "b.csv")[2] == "error rate 0.0000 (0 of 2)\n"

    @pytest.mark.parametrize("kind", ["svm.gz", "svm.bz2", "svm.xz", "csr.npz", "parts.npz", "npy"])
    def test_every_format(self, run, folder, rows, kind):
        X, y = rows
        name, options = f"a.{kind}", []
        if kind.startswith("svm"):
            dump_svmlight_file(X, y, "a.svm", zero_based=False)
            opener = sublinear._readers.files._OPENERS[f".{kind.split('.')[1]}"]
            with opener(name, "wb") as stream:
                stream.write((folder / "a.svm").read_bytes())
        elif kind == "parts.npz":
            parts = {part: getattr(X, part) for part in ("data", "indices", "indptr", "shape")}
            np.savez(name, **parts, y=y)
        else:
            sparse.save_npz(name, X) if kind == "csr.npz" else np.save(name, X.toarray())
            np.save("y.npy", y)
            options = ["--labels", "y.npy"]
        assert run("fit", name, "-o", "model", *FIT, *options) == (0, "", "")
        status, out, err = run("predict", "model", name, *options)
        assert status == 0
        assert len(out.split()) == 200
        assert err.startswith("error rate 0.")

    def test_fewer_features_than_the_model_are_padded(self, run, train, folder):
        run("fit", train, "-o", "model", *FIT)
        (folder / "short.svm").write_text("1 2:1\n-1 1:1\n")
        status, out, _ = run("predict", "model", "short.svm")
        assert status == 0
        assert len(out.split()) == 2

    def test_index_base_of_the_training_file_counts(self, run, folder):
        (folder / "zero.svm").write_text("1 0:1\n-1 1:1\n")
        run("fit", "zero.svm", "-o", "model", *FIT, "--no-intercept")
        (folder / "test.svm").write_text("-1 1:1\n")
        assert run("predict", "model", "test.svm")[1] == "-1\n"

    def test_labels_of_other_classes_give_no_error_rate(self, run, train, folder):
        run("fit", train, "-o", "model", *FIT)
        (folder / "test.svm").write_text("7 1:1\n")
        _, _, err = run("predict", "model", "test.svm")
        assert err == "none of the labels is one of the model's classes\n"


class TestErrors:
    @pytest.mark.parametrize("target", ["missing/model", ".", "train.svm/model"])
    def test_output_is_checked_before_the_data_is_read(self, fails, train, target, monkeypatch):
        for command in (_fit, _predict):
            monkeypatch.setattr(command, "read_data", lambda *_, **more: pytest.fail("read first"))
        assert f"cannot write {target}" in fails("fit", train, "-o", target)
        assert f"cannot write {target}" in fails("predict", train, train, "-o", target)

    @pytest.mark.parametrize("target", ["missing", "train.svm"])
    def test_comparison_checks_its_folder_first(self, fails, train, target, monkeypatch):
        monkeypatch.setattr(_compare, "_compare_data", lambda options: pytest.fail("read first"))
        assert "cannot write" in fails("compare", train, "-o", target)

    def test_malformed_line(self, fails, folder):
        (folder / "bad.svm").write_text("1 1:1\n-1 2:x\n")
        assert "bad.svm, line 2: '2:x'" in fails("fit", "bad.svm", "-o", "model")
        assert not (folder / "model").exists()

    @pytest.mark.parametrize("command", [["fit", "no", "-o", "m"], ["compare", "no"]])
    def test_no_such_file(self, fails, folder, command):
        assert "no: no such file" in fails(*command)
        assert list(folder.iterdir()) == []

    def test_no_labels(self, fails, folder):
        np.save("X.npy", np.eye(3))
        assert "--labels" in fails("fit", "X.npy", "-o", "model")
        for task in ("auto", "regression"):
            err = fails("fit", "X.npy", "-o", "model", "--stream", "--quiet", "--task", task)
            assert "a .npy file needs a file of labels" in err
        (folder / "a.csv").write_text("1,2\n")
        for stream in ([], ["--stream"]):
            err = fails("fit", "a.csv", "-o", "model", "--label-column", "none", *stream)
            assert "--label-column none is for predict" in err
            err = fails("fit", "a.csv", "-o", "model", "--label-column=--5", *stream)
            assert "no column named '--5'; the columns are" in err

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("x;y;label\n1;2;0\n", "commas must separate the fields"),
            ("x,y,label\n", "a.csv: the file holds no rows"),
        ],
    )
    def test_csv_files_without_data(self, fails, folder, text, words, stream):
        (folder / "a.csv").write_text(text)
        assert words in fails("fit", "a.csv", "-o", "model", *stream)

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    @pytest.mark.parametrize("features", [1, 2])
    def test_a_quote_that_is_not_closed(self, run, fails, folder, features, stream):
        (folder / "a.csv").write_text("1,3\n3,1\n" if features == 1 else "1,2,3\n3,2,1\n")
        assert run("fit", "a.csv", "-o", "model", *FIT)[0] == 0
        (folder / "b.csv").write_text('1,"2\n2,3,0\n')
        for command in (["fit", "b.csv", "-o", "m"], ["predict", "model", "b.csv"]):
            assert "b.csv, line 1: a quote is not closed" in fails(*command, *stream)

    def test_text_is_no_target_of_regression(self, fails, folder):
        (folder / "a.csv").write_text("1,red\n2,blue\n")
        for stream in ([], ["--stream"]):
            err = fails("fit", "a.csv", "-o", "model", "--task", "regression", *stream)
            assert "a.csv: the labels are text" in err

    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    @pytest.mark.parametrize("solver", ["sdca", "svrg"])
    def test_targets_out_of_range(self, fails, folder, solver, stream):
        (folder / "a.csv").write_text("1,1e300\n2,-1e300\n3,5\n")
        options = ["--task", "regression", "--solver", solver, "--quiet", *stream]
        err = fails("fit", "a.csv", "-o", "model", *options)
        assert "left the range of floating-point numbers: scale" in err
        assert not (folder / "model").exists()

    def test_no_thread(self, fails, train):
        err = fails("fit", train, "-o", "model", "--jobs", "0", "--quiet")
        assert "--jobs: '0' is not a number of threads, or -1 for all" in err

    def test_one_class(self, fails, folder):
        (folder / "a.svm").write_text("1 1:1\n1 2:1\n")
        for stream in ([], ["--stream"]):
            assert "only one class" in fails("fit", "a.svm", "-o", "model", "--quiet", *stream)
        assert "class" in fails("compare", "a.svm")

    def test_infinite_values_in_an_array(self, fails, folder):
        np.savez("a.npz", X=np.array([[np.inf], [1.0]]), y=[0, 1])
        assert "infinity" in fails("fit", "a.npz", "-o", "model")

    def test_unknown_loss(self, fails, train):
        assert "loss" in fails("fit", train, "-o", "model", "--loss", "cubic")

    def test_many_whole_numbers_ask_for_the_task(self, run, fails, folder):
        np.savez("a.npz", X=np.eye(200), y=np.arange(200))
        assert "200 distinct labels" in fails("compare", "a.npz")
        for stream in ([], ["--stream"]):
            for solver in ("sdca", "pegasos", "svrg"):
                given = ["-o", "model", "--quiet", "--solver", solver, *stream]
                assert "a.npz: 200 distinct labels; say --task" in fails("fit", "a.npz", *given)
            assert run("fit", "a.npz", *given, "--task", "regression")[0] == 0
            assert isinstance(load_model("model"), sublinear.StreamingSVRGRegressor)

    def test_many_classes_of_many_rows_need_no_task(self, run, folder):
        np.savez("a.npz", X=np.ones((2400, 1)), y=np.arange(2400) % 120)
        for stream in ([], ["--stream"]):
            given = ["-o", "model", *FIT, "--max-iter", "1", *stream]
            assert run("fit", "a.npz", *given)[0] == 0
            assert len(load_model("model").classes_) == 120

    @pytest.mark.parametrize(
        "option",
        [["--alpha", "0"], ["--alpha", "x"], ["--max-iter", "0"], ["--seed", "-1"], ["--no-such"]],
    )
    def test_options(self, fails, train, option):
        assert "--help" in fails("fit", train, "-o", "model", *option)

    def test_version(self, run):
        assert run("--version") == (0, f"sublinear {sublinear.__version__}\n", "")

    def test_no_command(self, fails):
        assert "COMMAND" in fails()

    def test_more_features_than_the_model(self, run, fails, train, folder):
        run("fit", train, "-o", "model", *FIT)
        (folder / "wide.svm").write_text("1 999:1\n")
        for stream in ([], ["--stream"]):
            err = fails("predict", "model", "wide.svm", *stream)
            assert "line 1: index 999 is beyond the 60 features" in err and "--n-features" in err
            wide = ["--n-features", "999", *stream]
            err = fails("predict", "model", "wide.svm", *wide)
            assert "has 999 features, the model 60" in err
            assert run("fit", train, "-o", "wide", *FIT, *wide)[0] == 0
            assert run("predict", "wide", "wide.svm", *stream)[0] == 0
        (folder / "a.csv").write_text("1,2,1\n")
        assert "2 features, the model 60" in fails("predict", "model", "a.csv")

    def test_not_a_model(self, fails, train):
        assert "not a sublinear model" in fails("predict", train, train)

    def test_missing_extra(self, fails, folder, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert 'pip install ".[demo]"' in fails("compare")


class TestInterrupt:
    def test_model_reached_is_kept_beside(self, run, train, folder, monkeypatch):
        run("fit", train, "-o", "model", *FIT)
        finished = (folder / "model").read_bytes()
        fit = sublinear.SDCAClassifier.fit

        def interrupted(self, X, y, sample_weight=None):
            fit(self, X, y)
            raise KeyboardInterrupt

        monkeypatch.setattr(sublinear.SDCAClassifier, "fit", interrupted)
        status, _, err = run("fit", train, "-o", "model", *FIT)
        assert status == 1
        assert err.endswith("wrote model.interrupted\nsublinear: interrupted\n")
        assert (folder / "model").read_bytes() == finished
        load_model("model.interrupted")

    def test_nothing_is_left_when_nothing_was_reached(self, run, train, folder, monkeypatch):
        def interrupted(self, X, y, sample_weight=None):
            raise KeyboardInterrupt

        monkeypatch.setattr(sublinear.SDCAClassifier, "fit", interrupted)
        before = sorted(folder.iterdir())
        assert run("fit", train, "-o", "model", *FIT)[::2] == (1, "sublinear: interrupted\n")
        assert sorted(folder.iterdir()) == before

    def test_a_model_that_has_seen_no_row_is_none(self, run, train, folder, monkeypatch):
        def interrupted(self, limit):
            raise KeyboardInterrupt

        monkeypatch.setattr(StreamedSDCA, "advance", interrupted)
        before = sorted(folder.iterdir())
        outcome = run("fit", train, "-o", "model", *FIT, "--stream")
        assert outcome[::2] == (1, "sublinear: interrupted\n")
        assert sorted(folder.iterdir()) == before


class TestCompare:
    SOLVERS = ["SDCAClassifier", "PegasosClassifier", "LinearSVC", "SGDClassifier"]
    OTHERS = ["L2SVMClassifier", "SIMBAClassifier", "SublinearPerceptron"]
    OTHERS += ["StreamingSVRGClassifier"]
    OPTIONS = ["--alpha", "0.01", "--tol", "0.01", "--max-iter", "50"]

    @pytest.fixture
    def document(self, run, train, folder):
        status, out, err = run("compare", train, *self.OPTIONS)
        assert status == 0
        assert "nan" not in out
        for solver in self.SOLVERS + self.OTHERS:
            assert solver in out
            assert solver in err  # the progress display
        assert "Weak duality" in out
        assert "upper bound" in out
        assert (folder / "compare.png").read_bytes().startswith(b"\x89PNG")
        assert sorted(path.name for path in folder.iterdir()) == [
            "compare.json",
            "compare.png",
            "train.svm",
        ]
        return json.loads((folder / "compare.json").read_text())

    def test_figures_agree_with_each_other(self, document):
        assert [run["solver"] for run in document["runs"]] == self.SOLVERS
        assert [run["solver"] for run in document["others"]] == self.OTHERS
        best = document["best_dual"]
        for run in document["runs"]:
            assert run["curve"][-1]["objective"] == run["objective"]
            for point in run["curve"]:
                assert point["gap"] >= 0
                assert 0 <= point["test_error"] <= 1
                assert point["objective"] >= best * (1 - 1e-12)
                if point["dual"] is not None:
                    assert point["dual"] <= best
            if run["library"] == "scikit-learn":
                entries = document["data"]["stored_entries"]
                assert run["gap"] == pytest.approx(run["objective"] - best)
                assert run["accesses"] == run["passes"] * entries

    def test_many_passes_are_written_out(self):
        from sublinear.cli._comparison import Point, Run
        from sublinear.cli._comparison_report import _row

        for passes, shown in ((1234.4, "1,234"), (2.345, "2.35")):
            point = Point(passes, 1, 1.0, 1.0, None, 0.1)
            assert shown in _row(Run("SGDClassifier", "scikit-learn", {}, (point,), False))

    def test_every_solver_with_epochs_has_a_curve(self, document):
        for run in document["runs"]:
            passes = [point["passes"] for point in run["curve"]]
            accesses = [point["accesses"] for point in run["curve"]]
            assert len(passes) >= 2, run["solver"]
            assert passes[0] <= 2
            assert passes == sorted(set(passes))
            assert accesses == sorted(set(accesses))

    def test_the_display_ends_with_the_passes_of_the_table(self, run, train, folder):
        _, _, err = run("compare", train, *self.OPTIONS)
        passes = {}
        for shown in re.split(r"[\r\n]+", err):
            if found := re.match(r"(\w+) +([\d.]+) passes", shown):
                passes[found[1]] = float(found[2])
        document = json.loads((folder / "compare.json").read_text())
        for one in document["runs"] + document["others"]:
            assert passes[one["solver"]] == pytest.approx(one["passes"], abs=0.051), one["solver"]

    def test_exact_solvers_agree_on_the_optimum(self, document):
        by_solver = {run["solver"]: run for run in document["runs"]}
        sdca, liblinear = by_solver["SDCAClassifier"], by_solver["LinearSVC"]
        assert sdca["objective"] == pytest.approx(liblinear["objective"], rel=0.02)
        assert sdca["gap"] <= 0.01 * sdca["objective"]
        assert liblinear["gap"] <= 0.01 * liblinear["objective"]

    def test_dense_rows_with_intercept_of_several_classes(self, run, folder):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((150, 3)).astype(np.float32)
        np.savez("a.npz", X=X, y=np.argmax(X, axis=1))
        status, out, err = run(
            "compare", "a.npz", *self.OPTIONS, "--intercept", "--scale", "rows", "--quiet"
        )
        assert status == 0
        assert err == ""
        assert "against the other 2 classes" in out
        data = json.loads((folder / "compare.json").read_text())["data"]
        assert (data["n_features"], data["scale"], data["intercept"]) == (4, "rows", True)

    def test_features_of_different_scale(self, run, folder):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 3)) * [1.0, 1e3, 1e-3]
        np.savez("a.npz", X=X, y=X[:, 0] + X[:, 1] / 1e3 > 0)
        few = ["--alpha", "0.01", "--tol", "0.01", "--max-iter", "6", "--quiet"]
        _, out, _ = run("compare", "a.npz", *few)
        assert "did not reach tol: try --scale columns" in out
        _, out, _ = run("compare", "a.npz", *few, "--scale", "columns")
        assert "did not reach tol" not in out

    def test_weights_of_rows(self, run, folder):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((120, 3))
        y = X[:, 0] + rng.standard_normal(120) > 0.5
        lines = np.column_stack([X, rng.choice([0, 1, 50], 120), y])
        np.savetxt("a.csv", lines, delimiter=",")
        options = [*self.OPTIONS, "--weight-column", "3", "--quiet"]
        status, out, _ = run("compare", "a.csv", *options)
        assert status == 0
        assert "rows weighted" in out
        document = json.loads((folder / "compare.json").read_text())
        data = document["data"]
        assert data["weighted"] and data["n_features"] == 3
        assert data["n_train"] + data["n_test"] == np.count_nonzero(lines[:, 3])
        for one in document["runs"]:
            assert one["gap"] <= 0.05 * one["objective"], one["solver"]
        assert [one["solver"] for one in document["others"]] == self.OTHERS
        lines[:, 3] = rng.uniform(0.5, 2, 120)  # of which no row has a part as its slack
        np.savetxt("a.csv", lines, delimiter=",")
        status, out, _ = run("compare", "a.csv", *options)
        assert status == 0 and "SIMBAClassifier is left out: sample_weight must hold" in out
        document = json.loads((folder / "compare.json").read_text())
        others = [one["solver"] for one in document["others"]]
        assert others == [name for name in self.OTHERS if name != "SIMBAClassifier"]
        assert list(document["left_out"]) == ["SIMBAClassifier"]

    @pytest.mark.parametrize(
        "y, words",
        [(np.arange(4) / 3, "whole numbers"), (None, "no labels"), ([0, 0, 0, 1], "two rows")],
    )
    def test_labels_it_cannot_use(self, fails, folder, y, words):
        np.savez("a.npz", X=np.eye(4), **({} if y is None else {"y": y}))
        assert words in fails("compare", "a.npz")


class TestProcess:
    def test_module_and_reader_that_leaves_early(self, train, folder):
        command = [sys.executable, "-m", "sublinear"]
        subprocess.run([*command, "fit", train, "-o", "model", *FIT], check=True)
        with subprocess.Popen(
            [*command, "predict", "model", train], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait() == 0

    @pytest.mark.parametrize("closed", ["stderr", "both"])
    def test_nobody_has_to_read_the_progress(self, train, folder, closed):
        command = [sys.executable, "-m", "sublinear", "fit", train, "-o", "model"]
        with subprocess.Popen(
            [*command, "--stream", "--solver", "pegasos", "--n-features", "70"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if closed == "both" else subprocess.PIPE,
        ) as process:
            (process.stdout if closed == "both" else process.stderr).close()
            if closed == "stderr":
                assert b"wrote model" in process.stdout.read()
            assert process.wait() == 0
        load_model("model")

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
    @pytest.mark.parametrize("stream", [[], ["--stream"]])
    def test_no_room_for_the_progress(self, train, folder, stream):
        command = [sys.executable, "-m", "sublinear"]
        with open("/dev/full", "w") as full:
            fit = [*command, "fit", train, "-o", "model", *stream]
            assert subprocess.run(fit, stdout=subprocess.PIPE, stderr=full).returncode == 0
            load_model("model")
            predict = [*command, "predict", "model", train]
            done = subprocess.run(predict, stdout=subprocess.PIPE, stderr=full)
            assert done.returncode == 0 and done.stdout.count(b"\n") == 200

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
    def test_no_room_for_the_predictions(self, train, folder):
        command = [sys.executable, "-m", "sublinear"]
        subprocess.run([*command, "fit", train, "-o", "model", *FIT], check=True)
        with open("/dev/full", "w") as full:
            predict = [*command, "predict", "model", train]
            done = subprocess.run(predict, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2
        assert re.fullmatch(r"sublinear: error: standard output: .*\n", done.stderr)

    def test_an_error_that_nobody_reads(self, folder):
        command = [sys.executable, "-m", "sublinear", "fit", "nothing.svm", "-o", "model"]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            process.stderr.close()
            assert process.wait() == 2

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes streams")
    @pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
    def test_streams_that_are_closed_from_the_beginning(self, train, folder, closed):
        def status(*arguments, what=("-m", "sublinear")):
            command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, *what]
            return subprocess.run([*command, *arguments], capture_output=True).returncode

        if status(what=("-c", "import scipy.sparse")):
            pytest.skip("this NumPy cannot be imported without the streams")
        assert status("fit", train, "-o", "model") == 0
        assert status("predict", "model", train) == 0
        assert status("predict", "model", train, "-o", "predictions") == 0
        assert len((folder / "predictions").read_text().split()) == 200
        assert status("predict", "nothing", train) == 2

    @pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs a name for a pipe")
    def test_a_pipe_is_no_file_to_be_replaced(self, train, folder):
        command = [sys.executable, "-m", "sublinear", "fit", train, "-o", "/dev/stdout"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2
        assert "cannot write /dev/stdout: it is not a regular file" in done.stderr

    def test_labels_that_standard_output_does_not_have(self, folder):
        (folder / "a.csv").write_text("x,z,s\n1,2,ö\n2,1,o\n", encoding="utf-8")
        command = [sys.executable, "-m", "sublinear"]
        subprocess.run([*command, "fit", "a.csv", "-o", "model", "--quiet"], check=True)
        done = subprocess.run(
            [*command, "predict", "model", "a.csv"],
            capture_output=True,
            env=os.environ | {"PYTHONIOENCODING": "ascii"},
        )
        assert done.returncode == 2
        assert b"standard output is ascii" in done.stderr and b"(-o)" in done.stderr

    def test_files_of_a_comparison_whose_table_nobody_reads(self, train, folder):
        command = [sys.executable, "-m", "sublinear", "compare", train, "--quiet", "--tol", "0.5"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.close()
            assert process.wait() == 0
        assert (folder / "compare.json").exists() and (folder / "compare.png").exists()

    def test_help_of_every_command(self, run):
        for arguments in (["--help"], ["compare", "-h"], ["fit", "-h"], ["predict", "-h"]):
            status, out, _ = run(*arguments)
            assert status == 0
            assert "usage: sublinear" in out


class TestStream:
    def fitted(self, run, *arguments):
        status, out, err = run("fit", *arguments, "-o", "model", "--stream", "--seed", "0")
        assert (status, err.count("error")) == (0, 0), err
        return load_model("model"), out

    def test_sdca_finds_the_labels_and_certifies(self, run, train, rows):
        model, out = self.fitted(run, train, "--alpha", "0.01")
        assert type(model).__name__ == "SDCAClassifier"
        assert model.classes_.tolist() == [-1, 1]
        assert "converged" in out and "200 rows in 1 block, 0 malformed lines left out" in out
        same = sublinear.SDCAClassifier(alpha=0.01, random_state=0)
        same.fit_stream(sublinear.sources.SvmlightSource(train), classes=[-1, 1])
        np.testing.assert_array_equal(model.coef_, same.coef_)
        in_memory = same.fit(*rows).result_
        assert model.result_.dual <= in_memory.primal and in_memory.dual <= model.result_.primal
        status, _, err = run("predict", "model", train, "-o", "predicted")
        assert status == 0 and "error rate" in err

    def test_passes_before_the_fit_are_shown(self, run, train):
        arguments = ("fit", train, "-o", "model", "--stream", "--alpha", "0.01")
        _, _, err = run(*arguments)
        assert re.search("finding columns: 200", err) and re.search("finding labels: 200", err)
        _, _, err = run(*arguments, "--n-features", "60", "--index-base", "1")
        assert "finding columns" not in err and "finding labels" in err
        assert run(*arguments, "--quiet")[1:] == ("", "")

    def test_pegasos_takes_one_pass(self, run, train, rows):
        model, out = self.fitted(run, train, "--solver", "pegasos", "--alpha", "0.01")
        source = sublinear.sources.SvmlightSource(train)
        same = sublinear.PegasosClassifier(alpha=0.01, random_state=0)
        np.testing.assert_array_equal(model.coef_, same.fit_stream(source, classes=[-1, 1]).coef_)
        assert "200 rows" in out and "certificate" not in out

    def test_svrg_tells_the_risk_and_predicts(self, run, train):
        model, out = self.fitted(run, train, "--solver", "svrg", "--alpha", "1")
        source = sublinear.sources.SvmlightSource(train)
        same = sublinear.StreamingSVRGClassifier(alpha=1.0, random_state=0)
        np.testing.assert_array_equal(model.coef_, same.fit_stream(source, classes=[-1, 1]).coef_)
        assert "200 rows in 1 block," in out and "risk above the best possible by about" in out
        status, _, err = run("predict", "model", train, "-o", "predicted")
        assert status == 0 and "error rate" in err

    def test_svrg_tells_why_the_risk_is_not_known(self, run, train):
        model, out = self.fitted(run, train, "--solver", "svrg", "--alpha", "1e-8")
        assert "risk above the best possible: not known, because few of the kept rows" in out
        assert np.isnan(model.result_.excess_risk)

    def test_shards_and_regression(self, run, folder):
        random = np.random.default_rng(0)
        (folder / "shards").mkdir()
        for k in range(3):
            X = random.normal(size=(50, 4))
            np.savez(folder / "shards" / f"{k}.npz", X=X, y=X[:, 0] + 0.25)
        model, out = self.fitted(run, "shards", "--alpha", "0.01")
        assert type(model).__name__ == "SDCARegressor"
        assert "150 rows in 3 blocks" in out

    def test_malformed_lines(self, run, fails, train):
        with open(train, "a") as stream:
            stream.write("1 2:x\n")
        err = fails("fit", train, "-o", "model", "--stream", "--quiet")
        assert "train.svm, line 201" in err
        _, out = self.fitted(run, train, "--on-error", "skip", "--alpha", "0.01")
        assert "1 malformed line left out" in out

    @pytest.mark.parametrize("solver", ["sdca", "pegasos", "svrg"])
    @pytest.mark.parametrize("task", ["auto", "regression", "classification"])
    @pytest.mark.parametrize("name, line", [("bad.csv", "1,x,0\n"), ("bad.svm", "1 2:x\n")])
    def test_nothing_but_malformed_lines(self, fails, folder, solver, task, name, line):
        (folder / name).write_text(("a,b,y\n" if name == "bad.csv" else "# no rows\n") + line * 2)
        err = fails(
            *("fit", name, "-o", "model", "--stream", "--quiet", "--on-error", "skip"),
            *("--solver", solver, "--task", task),
        )
        assert f"{name}: all 2 lines are malformed and were left out; the first is line 2: " in err

    def test_checkpoint(self, run, fails, train, folder):
        arguments = (train, "--alpha", "0.01", "--checkpoint", "state")
        first, _ = self.fitted(run, *arguments)
        assert (folder / "state").exists()
        again, _ = self.fitted(run, *arguments)
        np.testing.assert_array_equal(first.coef_, again.coef_)
        err = fails("fit", *arguments, "-o", "model", "--stream", "--seed", "1", "--quiet")
        assert "of another fit: it had random_state=0, this one has 1" in err
        assert "give --no-resume to begin anew" in err and "resume=False" not in err
        anew = ("fit", *arguments, "-o", "model", "--stream", "--seed", "1", "--quiet")
        assert run(*anew, "--no-resume") == (0, "", "")

    def test_options_that_do_not_apply(self, fails, train):
        of_streams = ["--checkpoint", "s"], ["--checkpoint-every", 5], ["--no-resume"]
        for option in (*of_streams, ["--on-error", "skip"], ["--on-error", "raise"]):
            err = fails("fit", train, "-o", "model", *option)
            assert f"{option[0]}: only with --stream" in err
        err = fails("fit", train, "-o", "model", "--no-resume", "--checkpoint", "s")
        assert "--checkpoint, --no-resume: only with --stream" in err
        for column, stream in product(("first", "last"), ([], ["--stream"])):
            err = fails("fit", train, "-o", "model", "--label-column", column, *stream)
            assert "label_column does not apply to data in svmlight format" in err

    def test_pegasos_projects_where_slopes_are_not_bounded(self, run, train, rows):
        for loss, projects in (("squared_hinge", True), ("hinge", False)):
            arguments = [train, "-o", "model", "--solver", "pegasos", "--alpha", "0.1", "--seed", 0]
            assert run("fit", *arguments, "--loss", loss)[0] == 0
            same = sublinear.PegasosClassifier(loss, alpha=0.1, projection=projects, random_state=0)
            np.testing.assert_allclose(load_model("model").coef_, same.fit(*rows).coef_, rtol=1e-9)

    def test_pegasos_counts_what_all_blocks_took(self, run, train):
        model, out = self.fitted(run, train, "--solver", "pegasos")
        assert f"{model.result_.accesses:,} feature values read, " in out
        assert "pass" not in out and "certificate" not in out

    def test_a_loss_of_another_solver(self, fails, train):
        err = fails("fit", train, "-o", "model", "--loss", "poisson")
        assert "StreamingSVRGRegressor (--solver svrg)" in err

    @pytest.mark.parametrize("solver", [["svrg"], ["svrg", "--stream"], ["pegasos", "--stream"]])
    def test_one_pass_has_no_limits(self, run, fails, train, solver):
        arguments = ("fit", train, "-o", "model", *FIT, "--solver", *solver)
        for option in (["--tol", "1e-9"], ["--max-iter", "5"], ["--max-accesses", "10"]):
            assert f"{option[0]}: only for several passes" in fails(*arguments, *option)
        assert "--tol: only for several passes" in fails(*arguments, "--tol", "1e-3")  # the default
        assert run(*arguments)[0] == 0

    def test_options_of_checkpoints(self, fails, train):
        for option in (["--no-resume"], ["--checkpoint-every", "7"]):
            err = fails("fit", train, "-o", "model", "--stream", *option)
            assert f"{option[0]}: only with --checkpoint" in err

    def test_a_fault_in_a_shard_names_it(self, fails, folder):
        (folder / "shards").mkdir()
        for k in range(4):
            X = np.eye(3 if k < 3 else 2)
            labels = {} if k == 1 else {"y": np.arange(len(X))}
            np.savez(folder / "shards" / f"{k}.npz", X=X, **labels)
        task = ("fit", "shards", "-o", "model", *FIT, "--stream", "--task", "classification")
        assert re.search(r"\(shards.1\.npz\): no labels to learn from", fails(*task))
        np.savez(folder / "shards" / "1.npz", X=np.eye(3), y=np.arange(3))
        assert re.search(r"\(shards.3\.npz\): 2 columns, but the first", fails(*task))

    def test_no_rows(self, fails, folder):
        (folder / "blank.svm").write_text("\n\n")
        err = fails("fit", "blank.svm", "-o", "model", *FIT, "--stream")
        assert "blank.svm: the file holds no rows" in err

    def test_budgets_beyond_64_bits(self, run, train):
        budget = ("--max-accesses", 2**63)
        assert run("fit", train, "-o", "model", *FIT, "--stream", *budget)[0] == 0

    def test_what_only_a_stream_can_read(self, fails, folder):
        (folder / "shards").mkdir()
        (folder / "rows.parquet").write_bytes(b"PAR1")
        for name in ("shards", "rows.parquet"):
            assert "--stream" in fails("fit", name, "-o", "model")
            assert "--stream" in fails("compare", name)

    @pytest.mark.parametrize("regression", [False, True])
    def test_predictions_of_shards(self, run, folder, rows, regression):
        X, y = rows
        y = X[:, [0]].toarray().ravel() + 0.25 if regression else y
        np.savez(folder / "whole.npz", X=X.toarray(), y=y)
        (folder / "shards").mkdir()
        for k in range(4):
            part = slice(50 * k, 50 * k + 50)
            np.savez(folder / "shards" / f"{k}.npz", X=X[part].toarray(), y=y[part])
        self.fitted(run, "shards", "--alpha", "0.01")
        expected = run("predict", "model", "whole.npz")
        assert expected[0] == 0 and ("R2" if regression else "error rate") in expected[2]
        np.save(folder / "rows.npy", X.toarray())
        for name, summary in ("shards", expected[2]), ("rows.npy", ""):
            found = run("predict", "model", name, "--stream")
            assert (found[0], found[2]) == (0, summary)
            if regression:  # a BLAS may round the products of fewer rows otherwise
                numbers = [np.array(text.split(), dtype=float) for text in (found[1], expected[1])]
                np.testing.assert_allclose(*numbers, rtol=1e-12)
            else:
                assert found[1] == expected[1]

    def test_weights_of_parquet(self, run, folder):
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        columns = {"x": [1.0, -1, 2, -2], "w": [1, 2, 0, 1], "kind": ["a", "b", "b", "b"]}
        table = pyarrow.table(columns)
        parquet.write_table(table, "rows.parquet")
        model, _ = self.fitted(run, "rows.parquet", "--weight-column", "w", "--alpha", "0.01")
        assert model.feature_names_in_.tolist() == ["x"]
        same = sublinear.SDCAClassifier(alpha=0.01, random_state=0)
        same.fit_stream([(np.c_[columns["x"]], columns["kind"], columns["w"])])
        np.testing.assert_array_equal(model.coef_, same.coef_)
        for names, err in ((["kind", "w", "x"], "error rate 0.2500 (1 of 4)\n"), (["x", "w"], "")):
            parquet.write_table(table.select(names), "others.parquet")
            found = run("predict", "model", "others.parquet", "--stream")
            assert found == (0, "a\nb\na\nb\n", err)

    def test_predictions_of_parquet(self, run, fails, folder):
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        columns = {"x": [1.0, -1, 2, -2], "z": [5.0, 5, 4, 4], "kind": ["a", "b", "a", "b"]}
        parquet.write_table(pyarrow.table(columns), "rows.parquet")
        self.fitted(run, "rows.parquet", "--alpha", "0.01")
        parquet.write_table(pyarrow.table(columns).select([1, 0, 2]), "rows.parquet")
        expected = (0, "a\nb\na\nb\n", "error rate 0.0000 (0 of 4)\n")
        assert run("predict", "model", "rows.parquet", "--stream") == expected
        parquet.write_table(pyarrow.table(columns).select([1, 0]), "rows.parquet")
        unlabelled = run("predict", "model", "rows.parquet", "--stream", "--label-column", "none")
        (folder / "rows").write_bytes((folder / "rows.parquet").read_bytes())
        assert "if this is Parquet, give the format parquet" in fails("fit", "rows", "-o", "m")
        told = ["rows", "--format", "parquet"]
        assert "--stream" in fails("fit", *told, "-o", "m")
        assert run("predict", "model", *told, "--stream", "--label-column", "none") == unlabelled
        assert unlabelled == (*expected[:2], "")
        assert run("predict", "model", "rows.parquet", "--stream") == unlabelled


def test_an_output_never_replaces_what_is_read(folder, train, run, fails):
    text = (folder / train).read_bytes()
    assert "would replace" in fails("fit", train, "-o", train)
    assert "would replace" in fails("fit", train, "-o", "m", "--stream", "--checkpoint", "m")
    (folder / "m.interrupted").write_bytes(text)
    assert "would replace" in fails("fit", "m.interrupted", "-o", "m")
    run("fit", train, "-o", "model", *FIT)
    model = (folder / "model").read_bytes()
    assert "would replace" in fails("predict", "model", train, "-o", "model")
    assert (folder / train).read_bytes() == text and (folder / "model").read_bytes() == model
    options = ["--stream", "--no-resume", "--checkpoint"]
    assert "would replace" in fails("fit", train, "-o", "m", *options, train)
    assert "would replace" in fails("compare", "compare.json")
    assert (folder / train).read_bytes() == text


def test_an_output_is_no_shard_of_the_data(folder, rows, fails, run):
    (folder / "shards").mkdir()
    sparse.save_npz(folder / "shards" / "a.npz", sparse.csr_array(rows[0]))
    inside = "shards/../shards/state.npz"
    for arguments in (["-o", inside], ["-o", "m", "--checkpoint", inside]):
        assert "would be read as a shard" in fails("fit", "shards", "--stream", *arguments)
    assert [path.name for path in (folder / "shards").iterdir()] == ["a.npz"]


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_classes_that_are_text_are_compared_as_text(folder, run, stream):
    labels = ["01", "02", "x"] * 20
    lines = [f"{k % 3},{(k + 1) % 3},{label}\n" for k, label in enumerate(labels)]
    (folder / "all.csv").write_text("".join(lines))
    (folder / "some.csv").write_text("".join(line for line in lines if "x" not in line))
    assert run("fit", "all.csv", "-o", "model", *FIT)[0] == 0
    for name, rows in (("all.csv", 60), ("some.csv", 40)):
        status, out, err = run("predict", "model", name, *stream)
        assert (status, len(out.split())) == (0, rows)
        assert err == f"error rate 0.0000 (0 of {rows})\n"


def test_test_sets_of_too_few_rows_for_two_classes(folder, fails):
    (folder / "four.csv").write_text("1,2,0\n2,1,1\n3,4,0\n5,1,1\n")
    said = fails("compare", "four.csv")
    assert "--test-size 0.25 makes 1 of 4 rows the test set" in said
    said = fails("compare", "four.csv", "--test-size", "0.7")
    assert "--test-size 0.7 makes 3 of 4 rows the test set" in said


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_a_single_row_with_a_label_of_text(folder, run, stream):
    (folder / "a.csv").write_text("1,2,a\n-1,2,b\n")
    assert run("fit", "a.csv", "-o", "model", *FIT)[0] == 0
    (folder / "b.csv").write_text("1,2,a\n")
    expected = (0, "a\n", "error rate 0.0000 (0 of 1)\n")
    assert run("predict", "model", "b.csv", *stream) == expected


def test_a_source_without_rows_is_an_error(folder, run, fails):
    np.savez("a.npz", X=np.eye(2), y=[0, 1])
    assert run("fit", "a.npz", "-o", "model", *FIT)[0] == 0
    np.savez("none.npz", X=np.empty((0, 2)), y=[])
    np.save("none.npy", np.empty((0, 2)))
    (folder / "none.svm").write_text("# nothing\n")
    for name in ("none.npz", "none.npy", "none.svm"):
        for stream in ([], ["--stream"]):
            err = fails("predict", "model", name, "-o", "predictions", *stream)
            assert f"{name}: the file holds no rows" in err
    (folder / "shards").mkdir()
    (folder / "none.npz").rename("shards/none.npz")
    err = fails("predict", "model", "shards", "-o", "predictions", "--stream")
    assert "shards: the folder holds no rows" in err
    assert not (folder / "predictions").exists()


def test_parquet_without_rows_is_an_error(folder, run, fails):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"x": [1.0, -1.0], "y": [1, 0]})
    parquet.write_table(table, "a.parquet")
    assert run("fit", "a.parquet", "-o", "model", "--stream", *FIT)[0] == 0
    parquet.write_table(table[:0], "none.parquet")
    err = fails("predict", "model", "none.parquet", "--stream")
    assert "none.parquet: the file holds no rows" in err
    with pytest.raises(ValueError, match=r"none\.parquet: the file holds no rows"):
        sublinear.SDCAClassifier().fit_stream(ParquetSource("none.parquet", label_column="y"))
    np.savez("none.npz", X=np.empty((0, 2)), y=[])
    with pytest.raises(ValueError, match=r"none\.npz: the file holds no rows"):
        sublinear.SDCAClassifier().fit_stream(NpzSource("none.npz"))


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_large_identifiers_are_classes(folder, run, stream):
    labels = ["9007199254740992", "9007199254740993"] * 20
    text = "".join(f"{k % 2},1.5,{label}\n" for k, label in enumerate(labels))
    (folder / "a.csv").write_text(text)
    assert run("fit", "a.csv", "-o", "model", *FIT, *stream)[0] == 0
    assert load_model("model").classes_.tolist() == [2**53, 2**53 + 1]
    _, out, err = run("predict", "model", "a.csv", *stream)
    assert out.split() == labels and err == "error rate 0.0000 (0 of 40)\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no such pipes")
def test_a_pipe_is_no_model(folder, train, fails):
    os.mkfifo("pipe")
    assert "pipe: not a regular file" in fails("predict", "pipe", train)


def test_a_byte_order_mark_before_a_quoted_label(folder, run):
    (folder / "train.csv").write_text('1,3,"a"\n-1,2,"b"\n')
    assert run("fit", "train.csv", "-o", "model", *FIT)[0] == 0
    (folder / "one.csv").write_bytes(b'\xef\xbb\xbf1,3,"a"\n')
    assert run("predict", "model", "one.csv")[:2] == (0, "a\n")


def test_a_label_of_two_lines_cannot_be_printed(folder, run, fails):
    np.savez("rows.npz", X=np.diag([1.0, -1, 1, -1]), y=["a\nb", "c", "a\nb", "c"])
    assert run("fit", "rows.npz", "-o", "model", *FIT)[0] == 0
    err = fails("predict", "model", "rows.npz")
    assert r"model: its label 'a\nb' is not one line" in err
    np.savez("rows.npz", X=np.diag([1.0, -1, 1, -1]), y=["", "c", "", "c"])
    assert run("fit", "rows.npz", "-o", "model", *FIT)[0] == 0
    assert run("predict", "model", "rows.npz")[:2] == (0, "\nc\n\nc\n")


def test_a_label_may_have_the_name_of_a_feature(folder, run):
    table = "7,8,7\n1,-1,1\n0,1,0\n2,-2,1\n-1,3,0\n"
    (folder / "train.csv").write_text(table)
    header = ["--header", "--label-column", "-1"]
    assert run("fit", "train.csv", "-o", "model", *FIT, *header)[0] == 0
    (folder / "rows.csv").write_text("7,8\n1,-1\n0,1\n")
    assert run("predict", "model", "rows.csv", "--header")[:2] == (0, "1\n0\n")


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_values_that_are_not_finite_are_said_of_their_file(folder, run, fails, stream):
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    np.savez("rows.npz", X=X, y=y)
    assert run("fit", "rows.npz", "-o", "model", *FIT)[0] == 0
    np.savez("rows.npz", X=np.where(X == 1, np.nan, X), y=y)
    for arguments in (("fit", "rows.npz", "-o", "other", *FIT), ("predict", "model", "rows.npz")):
        err = fails(*arguments, *stream)
        assert "rows.npz" in err and "Input X contains NaN" in err
        assert "HistGradientBoosting" not in err


def test_a_file_named_dash(train, fails):
    assert "-o -: name a file" in fails("fit", train, "-o", "-")


def test_jobs_beyond_a_c_integer(train, fails):
    assert "n_jobs must be an integer" in fails("fit", train, "-o", "model", "--jobs", 2**31)


def test_a_warning_has_a_line_of_its_own(capsys):
    with _console.standard_streams():
        show = cli._shows_each_warning_once()
        print("SDCA 3 passes", end="", file=sys.stderr)
        show("slow")
        show("slow")
        show("wide")
    err = capsys.readouterr().err
    assert err == "SDCA 3 passes\nsublinear: warning: slow\nsublinear: warning: wide\n"
