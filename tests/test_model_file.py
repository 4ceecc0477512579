"""Models survive the file, and nothing but a model does."""

import dataclasses
import errno
import io
import json
import pickle
import warnings
import zipfile
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import sublinear
from sublinear import (
    KernelPegasosClassifier,
    KernelSDCAClassifier,
    KernelSDCARegressor,
    L2SVMClassifier,
    MinimumEnclosingBall,
    PegasosClassifier,
    PegasosRegressor,
    PegasosStructured,
    SDCAClassifier,
    SDCARegressor,
    SequencePegasos,
    SIMBAClassifier,
    StreamingSVRGClassifier,
    StreamingSVRGRegressor,
    StructuredProblem,
    SublinearPerceptron,
    _archive,  # its reads fail here
    load_model,
    save_model,
    semi_streaming,
)
from sublinear.semi_streaming import SemiStreamingEnclosingBall, SemiStreamingPerceptron
from sublinear.sources import ArraySource

WITH_ALPHA = [SDCAClassifier, SDCARegressor, PegasosClassifier, PegasosRegressor, L2SVMClassifier]
WITH_ALPHA += [SequencePegasos]
OF_STREAMS = [StreamingSVRGClassifier, StreamingSVRGRegressor]
KINDS = [*WITH_ALPHA, SIMBAClassifier, SublinearPerceptron, *OF_STREAMS]

LABELS = {
    "integers": [-1, 1],
    "floats": [1.0, 2.0],
    "booleans": [False, True],
    "text": ["no", "yes"],
    "unicode": ["ähre \U0001f33e", "日本"],
    "three": ["a", "b", "c c"],
}


def fitted(kind=SDCAClassifier, labels=(-1, 1), **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    codes = np.argmax(X[:, : len(labels)], axis=1)
    y = X[:, 0] if issubclass(kind, RegressorMixin) else np.array(labels)[codes]
    if options.pop("objects", False):
        y = y.astype(object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        options = {"random_state": 0, **options}
        if kind not in OF_STREAMS:
            options = {"max_iter": 5, **options}
        if kind in WITH_ALPHA:
            options["alpha"] = 0.01
        return kind(**options).fit(X, y), X


def rewrite(path, *, arrays=None, header=None, drop=(), save=np.savez):
    """Change arrays or header entries of a model file."""
    with np.load(path) as archive:
        found = {name: archive[name] for name in archive.files if name not in drop}
    if header is not None:
        entries = json.loads(found["header"].tobytes()) | header
        found["header"] = np.frombuffer(json.dumps(entries).encode(), np.uint8)
    with open(path, "wb") as stream:
        save(stream, **(found | (arrays or {})))


@pytest.fixture
def path(tmp_path):
    """The file of a fitted model of two classes and four features."""
    save_model(fitted()[0], tmp_path / "model")
    return tmp_path / "model"


class TestRoundTrip:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_same_model(self, tmp_path, kind, fit_intercept):
        model, X = fitted(kind, fit_intercept=fit_intercept)
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert type(loaded) is kind
        assert loaded.get_params() == model.get_params()
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        arrays = ["coef_", "intercept_"]
        arrays += ["transition_", "start_"] if kind is SequencePegasos else []
        for name in arrays:
            found, expected = getattr(loaded, name), getattr(model, name)
            np.testing.assert_array_equal(found, expected)
            assert np.asarray(found).dtype == np.asarray(expected).dtype
            assert np.shape(found) == np.shape(expected)
        assert loaded.n_features_in_ == 4
        assert loaded.n_iter_ == model.n_iter_

    @pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
    def test_labels(self, tmp_path, labels):
        model, X = fitted(labels=labels)
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert loaded.classes_.dtype == model.classes_.dtype
        assert loaded.classes_.tolist() == labels
        assert loaded.predict(X).tolist() == model.predict(X).tolist()
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))

    @pytest.mark.parametrize("labels", [["no", "yes"], [1, 2], [False, True], [1.0, 2.0]], ids=str)
    def test_labels_in_an_object_array(self, tmp_path, labels):
        model, X = fitted(labels=labels, objects=isinstance(labels[0], str))
        model.classes_ = model.classes_.astype(object)  # as of a stream, where they are numbers
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert loaded.classes_.dtype == object
        assert loaded.predict(X).tolist() == model.predict(X).tolist()

    def test_result_without_the_trace(self, tmp_path):
        model, _ = fitted()
        save_model(model, tmp_path / "model")
        found, expected = load_model(tmp_path / "model").result_, model.result_
        for name in ("primal", "dual", "gap", "status", "n_iter", "accesses", "seconds"):
            assert getattr(found, name) == getattr(expected, name)
        assert found.trace == ()

    def test_parameters_that_are_not_plain(self, tmp_path):
        model, _ = fitted(
            class_weight={-1: 2.0, 1: np.float64(1)},
            random_state=np.random.RandomState(0),
            callback=lambda snapshot: False,
            tol=np.float64(0.1),
            intercept_scaling=Fraction(1, 3),
            smoothing=np.longdouble(0.5),
            max_iter=np.int64(5),
            fit_intercept=np.True_,
            loss=np.str_("hinge"),
        )
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert loaded.class_weight == {-1: 2.0, 1: 1.0}
        assert loaded.random_state is None
        assert loaded.callback is None
        assert loaded.tol == 0.1
        assert loaded.intercept_scaling == 1 / 3
        assert loaded.smoothing == 0.5 and loaded.max_iter == 5
        assert loaded.fit_intercept is True and loaded.loss == "hinge"

    def test_loaded_model_fits_again(self, path):
        model, X = fitted()
        loaded = load_model(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            loaded.fit(X, model.predict(X))
        assert loaded.result_.trace != ()

    @pytest.mark.parametrize("kind", [SDCAClassifier, StreamingSVRGClassifier])
    def test_saved_twice_is_the_same_file(self, kind, tmp_path):
        save_model(fitted(kind)[0], tmp_path / "model")
        save_model(load_model(tmp_path / "model"), tmp_path / "again")
        with np.load(tmp_path / "model") as first, np.load(tmp_path / "again") as second:
            assert all(np.array_equal(first[name], second[name]) for name in first.files)


class TestModelsOfStreams:
    @pytest.mark.parametrize("labels", [(-1, 1), ("a", "b", "c")], ids=["two", "three"])
    def test_scores_probabilities_and_risk(self, tmp_path, labels):
        model, X = fitted(StreamingSVRGClassifier, labels=labels)
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        expected = dataclasses.asdict(model.result_) | {"parts": ()}
        np.testing.assert_equal(dataclasses.asdict(loaded.result_), expected)

    def test_counts_are_exponentials_again(self, tmp_path):
        random = np.random.default_rng(0)
        X = random.standard_normal((500, 3))
        model = StreamingSVRGRegressor("poisson").fit(X, random.poisson(np.exp(X[:, 0])))
        save_model(model, tmp_path / "model")
        np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))

    def test_models_are_of_the_loss_that_was_fitted(self, tmp_path):
        X = np.random.default_rng(0).standard_normal((500, 3))
        counts = np.random.default_rng(1).poisson(np.exp(X[:, 0]))
        model = StreamingSVRGRegressor("poisson").fit(X, counts).set_params(loss="squared")
        save_model(model, tmp_path / "model")
        np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))

    @pytest.mark.parametrize(
        ("model", "other", "method"),
        [
            (StreamingSVRGRegressor("poisson"), {"loss": "squared"}, "predict"),
            (
                PegasosClassifier(loss="logistic", multi_class="joint", random_state=0, max_iter=5),
                {"multi_class": "ovr", "loss": "hinge"},
                "predict_proba",
            ),
        ],
    )
    def test_parameters_set_after_loading_change_no_prediction(
        self, tmp_path, model, other, method
    ):
        X = np.random.default_rng(0).standard_normal((500, 3))
        expected = getattr(model.fit(X, np.digitize(X[:, 0], [-0.5, 0.5])), method)(X)
        for _ in range(2):  # the file of a loaded model tells as much
            save_model(model, tmp_path / "model")
            model = load_model(tmp_path / "model").set_params(**other)
            np.testing.assert_array_equal(getattr(model, method)(X), expected)

    def test_only_a_new_fit_goes_on(self, tmp_path):
        model, X = fitted(StreamingSVRGRegressor, warm_start=True)
        save_model(model, tmp_path / "model")
        loaded = pickle.loads(pickle.dumps(load_model(tmp_path / "model")))
        for go_on in (loaded.partial_fit, loaded.fit):
            with pytest.raises(ValueError, match="nothing of the stream"):
                go_on(X, X[:, 0])
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        loaded.set_params(warm_start=False).fit(X, X[:, 0])
        assert loaded.result_.n_rows == len(X)

    def test_an_interval_that_is_none(self, tmp_path):
        save_model(fitted(StreamingSVRGRegressor)[0], tmp_path / "model")
        with np.load(tmp_path / "model") as archive:
            result = json.loads(archive["header"].tobytes())["result"]
        result["excess_risk_interval"] = [0.0, "1"]
        rewrite(tmp_path / "model", header={"result": result})
        with pytest.raises(ValueError, match="excess_risk_interval of the result"):
            load_model(tmp_path / "model")


def rows(kernel="rbf", layout="C", dtype=np.float64):
    """Return rows to fit and rows to predict, or the values of a kernel that is given."""
    X = np.random.default_rng(1).standard_normal((90, 5)).astype(dtype)
    X[np.abs(X) < 0.4] = 0
    if kernel == "precomputed":
        values = X @ X.T
        return values[:60, :60], values[60:, :60]
    make = {"C": np.ascontiguousarray, "F": np.asfortranarray, "CSR": sparse.csr_array}[layout]
    return make(X[:60]), make(X[60:])


def same_after_a_file(model, X, path, *methods):
    """Save and load a model; check that it predicts the same bits, and return what was loaded."""
    save_model(model, path)
    loaded = load_model(path)
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    for method in ("predict", *methods):
        found, expected = getattr(loaded, method)(X), getattr(model, method)(X)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    expected = dataclasses.asdict(model.result_) | {"trace": (), "parts": ()}
    assert dataclasses.asdict(loaded.result_) == expected
    assert (loaded.n_iter_, loaded.n_features_in_) == (model.n_iter_, model.n_features_in_)
    return loaded


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
class TestKernels:
    @pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "precomputed"])
    @pytest.mark.parametrize("labels", [(-1, 1), ("a", "b", "c")], ids=["two", "three"])
    @pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
    @pytest.mark.parametrize("kind", [KernelSDCAClassifier, KernelPegasosClassifier])
    def test_classifiers(self, tmp_path, kind, kernel, labels, multi_class):
        X, others = rows(kernel)
        y = np.array(labels)[np.argmax(X[:, : len(labels)], axis=1)]
        options = {"gamma": 1e-3 if kernel == "sigmoid" else "scale", "multi_class": multi_class}
        model = kind(kernel=kernel, **options, max_iter=3, random_state=0).fit(X, y)
        loaded = same_after_a_file(model, others, tmp_path / "model", "decision_function")
        assert loaded.classes_.tolist() == model.classes_.tolist()
        names = ["support_", "dual_coef_", "intercept_", "support_vectors_", "n_support_"]
        for name in names[: 5 if hasattr(model, "n_support_") else 4]:
            np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
        assert hasattr(loaded, "n_support_") == hasattr(model, "n_support_")

    @pytest.mark.parametrize("layout", ["C", "F", "CSR"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_layouts(self, tmp_path, layout, dtype):
        X, others = rows(layout=layout, dtype=dtype)
        y = rows(dtype=dtype)[0][:, 0]
        model = KernelSDCARegressor(C=10, max_support=20, random_state=0).fit(X, y)
        loaded = same_after_a_file(model, others, tmp_path / "model")
        assert loaded.reduction_ == model.reduction_ and model.reduction_.n_support > 20
        assert loaded.support_vectors_.dtype == dtype
        assert sparse.issparse(loaded.support_vectors_) == (layout == "CSR")
        dense = rows(dtype=dtype)[1]
        np.testing.assert_array_equal(loaded.predict(dense), model.predict(dense))

    @pytest.mark.parametrize("tol", [1e-2, 1e-6])
    def test_kernel_values_of_either_size(self, tmp_path, tol):
        X, others = rows()
        model = KernelSDCARegressor(tol=tol, random_state=0).fit(X, X[:, 0])
        loaded = same_after_a_file(model, others, tmp_path / "model")
        assert (loaded._is_exact, loaded._spread) == (model._is_exact, model._spread)
        assert model._is_exact == (tol < 1e-3) and model._spread > 0

    def test_images_without_a_spread(self, tmp_path):
        """Rounding alone would make it negative, or a kernel without images."""
        X, others = rows()
        indefinite = {"kernel": "poly", "degree": 2, "coef0": -3.0, "gamma": 0.5}
        equal, y = np.repeat(X[:1], 7, axis=0), np.arange(7) % 2
        models = [KernelSDCAClassifier(gamma=g, random_state=0).fit(equal, y) for g in (0.3, 1.0)]
        X = np.random.default_rng(0).normal(size=(100, 5))
        models.append(KernelSDCAClassifier(**indefinite, random_state=0).fit(X, X[:, 0] > 0))
        for model in models:
            loaded = same_after_a_file(model, others, tmp_path / "model", "decision_function")
            assert loaded._spread == model._spread == 0

    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
    @pytest.mark.parametrize("kind", [SublinearPerceptron, L2SVMClassifier])
    def test_margins(self, tmp_path, kind, kernel, n_classes):
        X, others = rows()
        y = np.argmax(X[:, :n_classes], axis=1)
        model = kind(kernel=kernel, max_iter=20, random_state=0).fit(X, y)
        loaded = same_after_a_file(model, others, tmp_path / "model", "decision_function")
        assert hasattr(loaded, "coef_") == (kernel == "linear")

    @pytest.mark.parametrize("layout", ["C", "CSR"])
    @pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
    def test_balls(self, tmp_path, kernel, layout):
        X, others = rows(layout=layout, dtype=np.float32)
        model = MinimumEnclosingBall(kernel=kernel, random_state=0).fit(X)
        scores = "decision_function", "score_samples"
        loaded = same_after_a_file(model, others, tmp_path / "model", *scores)
        assert (loaded.radius_, loaded.offset_) == (model.radius_, model.offset_)
        assert hasattr(loaded, "center_") == (kernel == "linear")
        assert not hasattr(loaded, "dual_coef_")

    def test_a_ball_without_a_proof(self, tmp_path):
        X, _ = rows()
        save_model(MinimumEnclosingBall(certify=None, random_state=0).fit(X), tmp_path / "model")
        assert np.isnan(load_model(tmp_path / "model").radius_)

    @pytest.mark.parametrize("kind", [KernelSDCAClassifier, MinimumEnclosingBall])
    def test_columns_out_of_order_or_twice(self, tmp_path, kind):
        _, others = rows(layout="CSR")
        random = np.random.default_rng(0)
        X = sparse.csr_array(
            (random.normal(size=90), np.tile([2, 0, 2], 30), np.arange(0, 91, 3)), shape=(30, 5)
        )
        model = kind(kernel="rbf", random_state=0).fit(X, np.arange(30) % 2)
        same_after_a_file(model, others, tmp_path / "model", "decision_function")
        assert not model.support_vectors_.has_canonical_format

    def test_predictions_are_by_the_kernel_of_the_fit(self, tmp_path):
        X, others = rows()
        model = KernelSDCARegressor(random_state=0).fit(X, X[:, 0])
        model.set_params(kernel="poly", gamma=3.0, memory_limit=10**6)
        loaded = same_after_a_file(model, others, tmp_path / "model")
        assert loaded.memory_limit == 10**6

    @pytest.mark.parametrize("kind", [KernelSDCAClassifier, KernelPegasosClassifier])
    def test_fits_of_a_loaded_model_begin_anew(self, tmp_path, kind):
        X, _ = rows()
        model = kind(warm_start=True, tol=0.1, random_state=0).fit(X, X[:, 0] > 0)
        save_model(model, tmp_path / "model")
        again = load_model(tmp_path / "model").fit(X, X[:, 0] > 0)
        np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
        assert again.n_iter_ == model.n_iter_

    def test_functions_are_refused(self, tmp_path):
        X, _ = rows()
        model = KernelSDCARegressor(kernel=lambda A, B: A @ B.T).fit(X, X[:, 0])
        with pytest.raises(TypeError, match="whose kernel is a function: pickle it, or fit it to"):
            save_model(model.set_params(kernel="rbf"), tmp_path / "model")
        model = KernelSDCARegressor().fit(X, X[:, 0])
        with pytest.raises(TypeError, match="cannot save kernel="):
            save_model(model.set_params(kernel=np.dot), tmp_path / "model")
        assert not list(tmp_path.iterdir())

    @pytest.fixture
    def pairs(self, tmp_path):
        """The file of a machine of three classes, its support vectors sparse."""
        X, _ = rows(layout="CSR")
        y = np.argmax(X[:, :3].toarray(), axis=1)
        save_model(KernelSDCAClassifier(random_state=0).fit(X, y), tmp_path / "model")
        return tmp_path / "model"

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"name": "laplace"}, "not the kernel"),
            ({"name": ["rbf"]}, "not the kernel"),
            ({"name": "precomputed"}, "support is out of range"),
            ({"gamma": "scale"}, "gamma is no number"),
            ({"gamma": -1.0}, "gamma must be"),
            ({"degree": 1.5}, "degree must be"),
            ({"coef0": None}, "coef0 must be"),
            ({"is_exact": 1}, "not the kernel values"),
            ({"spread": float("nan")}, "not the kernel values"),
            ({"reduction": [1]}, "reduction is"),
            ({"reduction": "few"}, "reduction is"),
        ],
    )
    def test_damaged_kernels(self, pairs, change, words):
        with np.load(pairs) as archive:
            entry = json.loads(archive["header"].tobytes())["kernel"]
        rewrite(pairs, header={"kernel": entry | change})
        with pytest.raises(ValueError, match=rf"model: .*{words}"):
            load_model(pairs)

    def test_a_machine_without_a_kernel(self, pairs):
        for kernel in (None, {}, [], 0):
            rewrite(pairs, header={"kernel": kernel})
            with pytest.raises(ValueError, match="not the kernel of a KernelSDCAClassifier"):
                load_model(pairs)

    @pytest.mark.parametrize(
        ("name", "change", "words"),
        [
            ("support", lambda a: a - 1000, "out of range"),
            ("support", lambda a: a[1:], "dual_coef has shape"),
            ("support", lambda a: a * 1.0, "whole numbers"),
            ("dual_coef", lambda a: a.astype(np.float32), "dual_coef must be float64"),
            ("dual_coef", lambda a: a * np.inf, "dual_coef is not finite"),
            ("dual_coef", lambda a: a[1:], "dual_coef has shape"),
            ("intercept", lambda a: a[1:], "intercept has shape"),
            ("classes", lambda a: a[1:], "two classes are no pairs"),
            ("n_support", lambda a: a - 1, "not the counts"),
            ("n_support", lambda a: np.add(a, [999, -999, 0]), "not the counts"),
            ("n_support", lambda a: a[1:], "n_support has shape"),
            ("n_support", lambda a: a * 1.0, "whole numbers"),
            ("support_data", lambda a: a * np.nan, "must be finite"),
            ("support_data", lambda a: a[1:], "damaged"),
            ("support_indices", lambda a: a + 100, "damaged"),
            ("support_indices", lambda a: a - 1, "damaged"),
            ("support_indices", lambda a: a * 0, "out of order, or twice"),
            ("support_indices", lambda a: a * 1.0, "whole numbers"),
            ("support_indptr", lambda a: a[::-1], "damaged"),
            ("support_indptr", lambda a: a[1:], "damaged"),
        ],
    )
    @pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
    def test_damaged_arrays(self, pairs, name, change, words):
        with np.load(pairs) as archive:
            array = archive[name]
        rewrite(pairs, arrays={name: np.ascontiguousarray(change(array))})
        with pytest.raises(ValueError, match=rf"model: .*{words}"):
            load_model(pairs)

    def test_support_vectors_of_another_kind(self, pairs):
        for change, words in (
            ({"arrays": {"support_vectors": np.ones((3, 5))}}, "support vectors of one model"),
            ({"drop": ["support_data", "support_indices", "support_indptr"]}, "has shape"),
            ({"drop": ["support_vectors"]}, "support vectors of one model"),
            ({"drop": ["support"]}, "not the arrays of a KernelSDCAClassifier"),
        ):
            rewrite(pairs, **change)
            with pytest.raises(ValueError, match=words):
                load_model(pairs)

    @pytest.mark.parametrize(("kernel", "name"), [("linear", "center"), ("rbf", "center_coef")])
    def test_damaged_balls(self, tmp_path, kernel, name):
        model = MinimumEnclosingBall(kernel=kernel, random_state=0).fit(rows()[0])
        path = tmp_path / "model"
        for change, words in (
            ({"header": {"numbers": None}}, "not the numbers of a MinimumEnclosingBall"),
            ({"header": {"numbers": {"radius_": 1.0}}}, "not the numbers of a Min"),
            ({"arrays": {name: np.ones(2)}}, f"{name} has shape"),
            ({"arrays": {"classes": np.array([0, 1])}}, "not the arrays of a MinimumEnclosingBall"),
        ):
            save_model(model, path)
            rewrite(path, **change)
            with pytest.raises(ValueError, match=words):
                load_model(path)
        save_model(model, path)
        with np.load(path) as archive:
            numbers = json.loads(archive["header"].tobytes())["numbers"]
        rewrite(path, header={"numbers": numbers | {"offset_": "1"}})
        with pytest.raises(ValueError, match="offset_ is '1'"):
            load_model(path)


class TestModelsOfPasses:
    """Models that are rows with weights, until one more pass adds these up."""

    OPTIONS = {"epsilon": 0.3, "random_state": 0}
    KINDS = (SemiStreamingPerceptron, SemiStreamingEnclosingBall)

    @pytest.fixture(scope="class")
    def source(self):
        X = np.random.default_rng(0).standard_normal((200, 4))
        return ArraySource(X, np.where(X[:, 0] > 0, "yes", "no"), block_rows=64)

    @pytest.fixture(params=KINDS)
    def model(self, request, source):
        return request.param(**self.OPTIONS).fit_stream(source)

    @pytest.fixture
    def path(self, source, tmp_path):
        """The file of a perceptron that has its weights."""
        model = SemiStreamingPerceptron(**self.OPTIONS).fit_stream(source)
        save_model(model.materialize(source), tmp_path / "model")
        return tmp_path / "model"

    def same(self, loaded, model):
        assert type(loaded) is type(model)
        # which the estimates are multiplied by
        assert vars(loaded).keys() == vars(model).keys() - {"_largest_norm"}
        for name in vars(loaded):
            found, expected = getattr(loaded, name), getattr(model, name)
            assert type(found) is type(expected), name
            np.testing.assert_array_equal(found, expected)
            assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)

    @pytest.mark.parametrize("is_materialized", [False, True])
    def test_same_model(self, model, source, tmp_path, is_materialized):
        if is_materialized:
            model.materialize(source)
        save_model(model, tmp_path / "model")
        self.same(load_model(tmp_path / "model"), model)

    def test_loaded_models_are_materialized(self, model, source, tmp_path):
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model").materialize(source)
        self.same(loaded, model.materialize(source))
        with pytest.raises(ValueError, match="has 199 rows, but that of the fit had 200"):
            loaded.materialize(ArraySource(source.X[1:], source.X[1:, 0] > 0))

    def test_the_source_is_asked_before_there_is_room_for_a_sum(self, model, source, tmp_path):
        save_model(model, tmp_path / "model")
        rewrite(tmp_path / "model", header={"n_features_in": 10**15})
        with pytest.raises(ValueError, match=f"has 4 columns, but the fit had {10**15}"):
            load_model(tmp_path / "model").materialize(source)

    def test_predictions(self, path, source):
        expected = SemiStreamingPerceptron(**self.OPTIONS).fit_stream(source).materialize(source)
        loaded, X = load_model(path), source.X
        np.testing.assert_array_equal(loaded.predict(X), expected.predict(X))
        np.testing.assert_array_equal(loaded.decision_function(X), expected.decision_function(X))

    @pytest.mark.parametrize(
        ("name", "change", "words"),
        [
            ("rows", lambda a: a[::-1], "rows must be ascending and distinct"),
            ("rows", lambda a: np.append(a[:-1], a[-2]), "rows must be ascending"),
            ("rows", lambda a: a - a[0] - 1, "rows must be .* from 0 to 199"),
            ("rows", lambda a: np.append(a[:-1], 200), "rows must be .* from 0 to 199"),
            ("rows", lambda a: a * 1.0, "rows must be a 1-d array of whole numbers"),
            ("rows", lambda a: a.astype(np.uint64), "rows must be a 1-d array of whole numbers"),
            ("rows", lambda a: a[1:], "row_weights has shape"),
            ("row_weights", lambda a: a[np.newaxis], "row_weights has shape"),
            ("row_weights", lambda a: a.astype(np.float32), "row_weights must be float64"),
            ("row_weights", lambda a: a * np.nan, "row_weights is not finite"),
            ("coef", lambda a: a[0], "coef has shape"),
            ("coef", lambda a: a.astype(np.float32), "coef must be float64"),
            ("classes", lambda a: np.array(["a", "b", "c"]), "class labels of a .* must be two"),
            ("classes", lambda a: a[1:], "class labels must be two"),
        ],
    )
    def test_damaged_arrays(self, path, name, change, words):
        with np.load(path) as archive:
            array = archive[name]
        rewrite(path, arrays={name: np.ascontiguousarray(change(array))})
        with pytest.raises(ValueError, match=f"model: {words}"):
            load_model(path)

    @pytest.mark.parametrize(
        ("entry", "value", "words"),
        [
            ("stream", None, "not the counts of a source"),
            ("stream", {"rows": 200}, "not the counts of a source"),
            ("stream", {"blocks": 4, "rows": 200.0, "skipped": 0}, "rows of the source is 200.0"),
            ("stream", {"blocks": 4, "rows": True, "skipped": 0}, "rows of the source is True"),
            ("stream", {"blocks": 4, "rows": 200, "skipped": -1}, "skipped of the source is -1"),
            ("stream", {"blocks": 4, "rows": 9, "skipped": 0}, "rows must be .* from 0 to 8"),
            ("numbers", None, "not the numbers of a SemiStreamingPerceptron"),
            ("numbers", {"margin_bound_": 1.0}, "not the numbers of a SemiStreamingPerceptron"),
            ("numbers", {"margin_bound_": 1.0, "margin_estimate_": "1"}, "margin_estimate_ is '1'"),
            ("result", {"passes": 1}, "not the figures of a result"),
            ("n_features_in", 5, "coef has shape"),
            ("kernel", {"name": "rbf"}, "a SemiStreamingPerceptron has no kernel"),
        ],
    )
    def test_damaged_headers(self, path, entry, value, words):
        rewrite(path, header={entry: value})
        with pytest.raises(ValueError, match=f"model: .*{words}"):
            load_model(path)

    @pytest.mark.parametrize("kind", KINDS)
    def test_arrays_of_another_kind(self, kind, source, tmp_path):
        path = tmp_path / "model"
        other = "center" if kind is SemiStreamingPerceptron else "coef"
        for change in (
            {"drop": ["rows"]},
            {"drop": ["row_weights"]},
            {"arrays": {other: np.ones(4)}},
            {"arrays": {"intercept": np.zeros(1)}},
            {"arrays": {"support": np.arange(3)}},
        ):
            save_model(kind(**self.OPTIONS).fit_stream(source), path)
            rewrite(path, **change)
            with pytest.raises(ValueError, match=f"not the arrays of a {kind.__name__}"):
                load_model(path)

    def test_balls_have_no_classes(self, source, tmp_path):
        path = tmp_path / "model"
        save_model(SemiStreamingEnclosingBall(**self.OPTIONS).fit(source.X), path)
        rewrite(path, arrays={"classes": np.array([0, 1])})
        with pytest.raises(ValueError, match="not the arrays of a SemiStreamingEnclosingBall"):
            load_model(path)
        rewrite(path, drop=["classes"], arrays={"center": np.ones(3)})
        with pytest.raises(ValueError, match="center has shape"):
            load_model(path)


class Parity(StructuredProblem):
    """Is the first feature positive?"""

    def joint_features(self, x, y):
        return y * x

    def loss(self, y, other):
        return float(y != other)

    def loss_augmented_decode(self, weights, x, y):
        return max((-1, 1), key=lambda other: (y != other) + other * (weights @ x))

    def decode(self, weights, x):
        return max((-1, 1), key=lambda y: y * (weights @ x))


class TestSave:
    def test_another_estimator(self, tmp_path):
        with pytest.raises(TypeError, match=r"cannot save a LinearSVC; a model is .*; pickle it"):
            save_model(LinearSVC(), tmp_path / "model")
        with pytest.raises(TypeError, match="save its last step, or pickle the whole"):
            save_model(make_pipeline(SDCAClassifier()), tmp_path / "model")

    def test_all_estimators_but_those_of_a_problem_in_code(self, tmp_path):
        for place in (sublinear, semi_streaming):
            for kind in (getattr(place, name) for name in place.__all__):
                if isinstance(kind, type) and issubclass(kind, BaseEstimator):
                    error = TypeError if kind is PegasosStructured else ValueError
                    options = {"problem": None} if kind is PegasosStructured else {}
                    with pytest.raises(error, match=r"problem is code|is not fitted"):
                        save_model(kind(**options), tmp_path / "model")

    def test_problems_in_code_keep_their_weights_alone(self, tmp_path):
        X, y = [np.array([1.0, 0.2]), np.array([-1.0, 0.1])], [1, -1]
        model = PegasosStructured(Parity(), alpha=0.1, tol=0, max_iter=5, random_state=0)
        model.fit(X, y)
        with pytest.raises(TypeError, match=r"or keep its coef_ .*problem\.decode\(coef_, x\)"):
            save_model(model, tmp_path / "model")
        np.save(tmp_path / "coef.npy", model.coef_)
        coef = np.load(tmp_path / "coef.npy")
        assert [Parity().decode(coef, x) for x in X] == model.predict(X) == y

    @pytest.mark.parametrize("names", [[0, 1, 2, 3], ["a", "b", "c", 3]])
    def test_names_that_are_no_strings(self, tmp_path, names):
        model, _ = fitted()
        model.feature_names_in_ = np.array(names, dtype=object)
        with pytest.raises(ValueError, match="feature_names_in_ must hold strings"):
            save_model(model, tmp_path / "m.npz")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("name", "value"),
        [("alpha", {1, 2}), ("tol", 1j), ("class_weight", {-1: 1, 1: 1, frozenset(): 2})],
    )
    def test_parameters_that_no_file_holds(self, tmp_path, name, value):
        model, _ = fitted()
        model.set_params(**{name: value})
        with pytest.raises(TypeError, match=f"cannot save {name}="):
            save_model(model, tmp_path / "model")
        assert not list(tmp_path.iterdir())

    def test_names_of_other_features(self, tmp_path):
        model, _ = fitted()
        model.feature_names_in_ = np.array(list("abc"), dtype=object)
        with pytest.raises(ValueError, match="3 names, but the model has 4 features"):
            save_model(model, tmp_path / "model.npz")
        assert not list(tmp_path.iterdir())

    def test_labels_that_need_pickling(self, tmp_path):
        model, _ = fitted()
        for labels in ([("a",), 1], ["1", 2], [1, None], [b"a", b"b"]):
            model.classes_ = np.array(labels, dtype=object)
            with pytest.raises(TypeError, match="numbers or strings"):
                save_model(model, tmp_path / "model")
        assert list(tmp_path.iterdir()) == []

    def test_no_folder_or_a_folder_in_the_way(self, tmp_path):
        model, _ = fitted()
        missing = tmp_path / "missing"
        for target, reason in (
            (missing / "model", f"no folder {missing}"),
            (tmp_path, "directory"),
        ):
            with pytest.raises(OSError, match=f"^cannot write {target}: .*{reason}$"):
                save_model(model, target)
        assert list(tmp_path.iterdir()) == []

    def test_failure_leaves_the_old_file(self, path, monkeypatch):
        before = path.read_bytes()

        def fail(stream, **arrays):
            stream.write(b"half")
            raise OSError("no space left")

        monkeypatch.setattr(np, "savez", fail)
        with pytest.raises(OSError, match="no space left"):
            save_model(fitted()[0], path)
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]

    def test_a_full_disk_is_named_with_the_file(self, path):
        resource = pytest.importorskip("resource")
        before, (soft, hard) = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
        model = fitted()[0]
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
        try:
            with pytest.raises(OSError, match=f"cannot write {path}: file too large"):
                save_model(model, path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]

    def test_link_keeps_pointing_at_the_file(self, path):
        link = path.with_name("link")
        link.symlink_to(path)
        save_model(fitted(PegasosClassifier)[0], link)
        assert link.is_symlink()
        assert isinstance(load_model(path), PegasosClassifier)

    def test_nothing_is_pickled(self, path):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            assert {"coef.npy", "intercept.npy"} <= set(names)
            for name in names:
                np.load(io.BytesIO(archive.read(name)), allow_pickle=False)


class TestNotAModel:
    @pytest.mark.parametrize("content", [b"", b"1 1:2\n", b"PK\x03\x04 not really", b"\x80\x04."])
    def test_other_content(self, tmp_path, content):
        (tmp_path / "model").write_bytes(content)
        with pytest.raises(ValueError, match="model: not a sublinear model file"):
            load_model(tmp_path / "model")

    def test_missing_or_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no such file"):
            load_model(tmp_path / "model")
        with pytest.raises(OSError, match="not a regular file"):
            load_model(tmp_path)

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (MemoryError("that much"), "model does not fit into memory$"),
            (OSError(errno.EIO, "Input/output error"), "model: input/output error$"),
            (OSError("of damage"), "model: damaged model file"),
        ],
    )
    def test_failing_reads(self, tmp_path, monkeypatch, error, message):
        def fail(*args, **kwargs):
            raise error

        save_model(SDCAClassifier().fit([[0.0], [1.0]], [0, 1]), tmp_path / "model")
        monkeypatch.setattr(_archive.np, "load", fail)
        kind = type(error) if "damaged" not in message else ValueError
        with pytest.raises(kind, match=message):
            load_model(tmp_path / "model")

    def test_other_arrays(self, tmp_path):
        np.savez(tmp_path / "model.npz", X=np.eye(2), y=np.ones(2))
        with pytest.raises(ValueError, match=r"model\.npz: not a sublinear model file"):
            load_model(tmp_path / "model.npz")

    def test_truncated_anywhere(self, path):
        whole = path.read_bytes()
        for length in range(0, len(whole), 97):
            path.write_bytes(whole[:length])
            with pytest.raises(ValueError, match=r"model: (not a|damaged)"):
                load_model(path)

    def test_any_byte_changed_in_the_arrays(self, path):
        whole = path.read_bytes()
        for place in range(0, len(whole), 31):
            content = bytearray(whole)
            content[place] ^= 0xFF
            path.write_bytes(content)
            try:
                model = load_model(path)
            except ValueError as error:
                assert str(error).startswith(str(path))
            else:
                # zip keeps some fields twice and ignores others
                np.testing.assert_array_equal(model.coef_, fitted()[0].coef_)

    def test_compressed_archive(self, path):
        rewrite(path, save=np.savez_compressed)
        with pytest.raises(ValueError, match="compressed"):
            load_model(path)

    @pytest.mark.parametrize("kind", ["<U0", "<f8"])
    def test_arrays_larger_than_their_file(self, path, kind):
        content = io.BytesIO()
        header = {"descr": kind, "fortran_order": False, "shape": (2 * 10**15,)}
        np.lib.format.write_array_header_1_0(content, header)
        rewrite(path, drop=["classes"])
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("classes.npy", content.getvalue())
        with pytest.raises(ValueError, match=r"damaged model file .no room for an array"):
            load_model(path)

    def test_pickled_objects_are_refused(self, path):
        objects = np.array(["no", "yes"], dtype=object)
        rewrite(path, arrays={"classes": objects})
        with pytest.raises(ValueError, match=r"damaged model file.*Python objects"):
            load_model(path)

    @pytest.mark.parametrize(
        "header, words",
        [
            ({"format": "another"}, "not a sublinear model"),
            ({"version": 2}, "newer.*upgrade"),
            ({"version": "1"}, "no version"),
            ({"class": "SVC"}, "unknown class 'SVC'"),
            ({"class": ["SDCAClassifier"]}, "unknown class"),
            ({"parameters": None}, "no parameters"),
            ({"parameters": {"kernel": "rbf"}}, "unknown parameter 'kernel'"),
            ({"parameters": {"alpha": [1]}}, "parameter 'alpha'"),
            ({"parameters": {"class_weight": [1]}}, "damaged"),
            ({"n_features_in": 5}, "coef has shape"),
            ({"n_features_in": "4"}, "no n_features_in"),
            ({"n_iter": -1}, "no n_iter"),
            ({"result": {}}, "figures of a result"),
            ({"class": "SDCARegressor", "parameters": {}}, "not the arrays of a SDCARegressor"),
            ({"kernel": {"name": "rbf"}}, "a SDCAClassifier has no kernel"),
        ],
    )
    def test_header(self, path, header, words):
        rewrite(path, header=header)
        with pytest.raises(ValueError, match=words):
            load_model(path)

    @pytest.mark.parametrize("header", [b"", b"{", b"\xff\xfe", b"[]", b"[" * 100_000])
    def test_header_is_not_the_json_expected(self, path, header):
        rewrite(path, arrays={"header": np.frombuffer(header, np.uint8)})
        with pytest.raises(ValueError, match=r"model: (damaged|not a)"):
            load_model(path)

    @pytest.mark.parametrize(
        "arrays, words",
        [
            ({"coef": np.ones((1, 5))}, "coef has shape"),
            ({"coef": np.ones(4)}, "coef has shape"),
            ({"coef": np.array([[1, 2, 3, np.nan]])}, "coef is not finite"),
            ({"coef": np.ones((1, 4), dtype=int)}, "coef must be float"),
            ({"intercept": np.ones(3)}, "intercept has shape"),
            ({"intercept": np.array([np.inf])}, "intercept is not finite"),
            ({"classes": np.array([1, -1])}, "ascending"),
            ({"classes": np.array([1])}, "two or more"),
            ({"classes": np.array([1, 2, 3])}, "coef has shape"),
            ({"classes": np.array([[1, 2]])}, "no class labels"),
            ({"feature_names": np.array(["a"])}, "feature_names"),
        ],
    )
    def test_arrays(self, path, arrays, words):
        rewrite(path, arrays=arrays)
        with pytest.raises(ValueError, match=words):
            load_model(path)

    @pytest.mark.parametrize(
        "arrays, words",
        [
            ({"transition": np.ones(2)}, "transition has shape"),
            ({"start": np.ones(3)}, "start has shape"),
            ({"start": np.array([0, np.nan])}, "start is not finite"),
        ],
    )
    def test_arrays_of_a_chain(self, path, arrays, words):
        save_model(fitted(SequencePegasos)[0], path)
        rewrite(path, arrays=arrays)
        with pytest.raises(ValueError, match=words):
            load_model(path)

    def test_a_chain_needs_its_arrays_and_no_other_model_has_them(self, path):
        rewrite(path, arrays={"start": np.ones(2)})
        with pytest.raises(ValueError, match="not the arrays of a SDCAClassifier"):
            load_model(path)
        save_model(fitted(SequencePegasos)[0], path)
        rewrite(path, drop=["start"])
        with pytest.raises(ValueError, match="not the arrays of a SequencePegasos"):
            load_model(path)

    def test_no_classes(self, path):
        rewrite(path, drop=["classes"])
        with pytest.raises(ValueError, match="no class labels"):
            load_model(path)

    def test_parameters_that_are_no_numbers(self, path):
        with np.load(path) as archive:
            parameters = json.loads(archive["header"].tobytes())["parameters"]
        rewrite(path, header={"parameters": parameters | {"alpha": np.nan}})
        with pytest.raises(ValueError, match="parameter 'alpha' is NaN"):
            load_model(path)

    @pytest.mark.parametrize(
        ("name", "value"), [("gap", "small"), ("status", "fine"), ("n_iter", -5), ("primal", True)]
    )
    def test_result_entries(self, path, name, value):
        with np.load(path) as archive:
            result = json.loads(archive["header"].tobytes())["result"]
        rewrite(path, header={"result": result | {name: value}})
        with pytest.raises(ValueError, match=f"{name} of the result"):
            load_model(path)
