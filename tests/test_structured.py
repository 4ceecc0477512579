"""PegasosStructured: the same steps as the compiled solvers, and what users may get wrong."""

import numpy as np
import pytest
from reference import chain_pegasos as chains
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sublinear import PegasosClassifier, PegasosStructured, SequencePegasos, StructuredProblem
from sublinear.datasets import make_tagged_sequences

FEW = {"alpha": 0.05, "random_state": 0, "max_iter": 6, "tol": 0}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Classes(StructuredProblem):
    """Multiclass classification with unit costs."""

    def __init__(self, k, make=np.asarray):
        self.k, self.make = k, make

    def joint_features(self, x, y):
        return self.make(np.kron(x, np.eye(self.k)[y])[np.newaxis])

    def loss(self, y, other):
        return float(y != other)

    def loss_augmented_decode(self, weights, x, y):
        return int(np.argmax(x @ weights.reshape(-1, self.k) + (np.arange(self.k) != y)))

    def decode(self, weights, x):
        return int(np.argmax(x @ weights.reshape(-1, self.k)))


class Tags(StructuredProblem):
    """Label sequences, with the weights laid out as SequencePegasos does."""

    def __init__(self, k):
        self.k = k

    def joint_features(self, x, y):
        w = chains.zeros(x.shape[1], self.k)
        chains.add_path(w, x, y, 1.0)
        return chains.as_array(w).ravel()

    def loss(self, y, other):
        return float(np.sum(y != other))

    def loss_augmented_decode(self, weights, x, y):
        return chains.viterbi(chains.from_array(weights.reshape(-1, self.k), self.k), x, y)

    def decode(self, weights, x):
        return chains.viterbi(chains.from_array(weights.reshape(-1, self.k), self.k), x)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("average", "batch_size", "sampling"),
    [
        ("last", 1, "shuffle"),
        ("tail", 1, "fixed"),
        ("mean", 7, "subsets"),
        ("tail", 7, "shuffle"),
        ("mean", 7, "replacement"),
        ("tail", "all", "shuffle"),
    ],
)
def test_it_is_joint_multiclass_where_that_is_the_problem(
    multiclass, make, average, batch_size, sampling, as_stored
):
    X, y = multiclass
    settings = FEW | {"average": average, "batch_size": batch_size, "sampling": sampling}
    settings["max_iter"] = 2
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    ours = PegasosStructured(Classes(3, make), **settings).fit(X, y, weights)
    compiled = PegasosClassifier(multi_class="joint", fit_intercept=False, **settings)
    compiled.fit(X, y, weights)
    np.testing.assert_allclose(ours.coef_.reshape(-1, 3).T, compiled.coef_, atol=1e-10)
    assert ours.result_.primal == pytest.approx(compiled.result_.primal, rel=1e-9)
    np.testing.assert_array_equal(ours.predict(X), compiled.predict(X))
    assert ours.score(X, y) == pytest.approx(compiled.score(X, y) - 1)
    assert ours.score(X, y, weights) == pytest.approx(compiled.score(X, y, weights) - 1)


@pytest.mark.parametrize("dtype", [np.uint8, bool])
def test_sparse_rows_of_any_type(multiclass, dtype):
    X, y = multiclass
    X = X > 0
    exact = PegasosStructured(Classes(3), **FEW).fit(X, y)
    rows = Classes(3, lambda row: sparse.csr_array(row.astype(dtype)))
    np.testing.assert_allclose(PegasosStructured(rows, **FEW).fit(X, y).coef_, exact.coef_)


@pytest.mark.parametrize("make", [sparse.lil_array, sparse.dok_array, sparse.coo_array])
def test_sparse_rows_of_any_format(multiclass, make):
    X, y = multiclass
    expected = PegasosStructured(Classes(3), **FEW).fit(X, y)
    model = PegasosStructured(Classes(3, make), **FEW).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_sparse_rows_whose_indices_do_not_exist(multiclass, kind):
    def broken(row):
        rows = sparse.csr_array(row).asformat(kind)
        rows.indices[-1] = 2**29
        return rows

    with pytest.raises(ValueError, match=f"not a valid {kind.upper()} matrix"):
        PegasosStructured(Classes(3, broken), **FEW).fit(*multiclass)


def test_features_may_always_be_in_the_same_array(multiclass):
    X, y = multiclass
    buffer = np.empty((1, 3 * X.shape[1]))

    def fill(row):
        buffer[:] = row
        return buffer

    model = PegasosStructured(Classes(3, fill), **FEW).fit(X, y)
    expected = PegasosStructured(Classes(3), **FEW).fit(X, y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_examples_are_taken_by_position(multiclass):
    pandas = pytest.importorskip("pandas")
    X, y = multiclass
    order = np.random.default_rng(0).permutation(len(y))
    frame, labels = pandas.DataFrame(X, index=order), pandas.Series(y, index=order[::-1])
    weights = pandas.Series(np.arange(1.0, len(y) + 1), index=order)

    class Rows(Classes):
        def joint_features(self, x, y):
            return super().joint_features(np.asarray(x), y)

    expected = PegasosStructured(Classes(3), **FEW).fit(X, y, weights.to_numpy())
    model = PegasosStructured(Rows(3), **FEW).fit(frame, labels, weights)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.predict(frame) == expected.predict(X)
    assert model.score(frame, labels) == expected.score(X, y)


def test_it_is_the_chain_where_that_is_the_problem():
    X, y, lengths, _ = make_tagged_sequences(
        12, n_tags=3, n_symbols=8, mean_length=5, random_state=0
    )
    X = X.toarray()
    matrices, labels = (np.split(array, np.cumsum(lengths)[:-1]) for array in (X, y))
    ours = PegasosStructured(Tags(3), **FEW).fit(matrices, labels)
    compiled = SequencePegasos(fit_intercept=False, **FEW).fit(X, y, lengths)
    array = ours.coef_.reshape(-1, 3)
    np.testing.assert_allclose(array[:3], compiled.transition_, atol=1e-10)
    np.testing.assert_allclose(array[4:].T, compiled.coef_, atol=1e-10)
    assert ours.result_.primal == pytest.approx(compiled.result_.primal, rel=1e-9)
    assert ours.result_.dual == pytest.approx(compiled.result_.dual, rel=1e-9)
    np.testing.assert_array_equal(
        np.concatenate(ours.predict(matrices)), compiled.predict(X, lengths)
    )


def test_the_gap_closes_and_seeds(multiclass):
    X, y = multiclass
    model = PegasosStructured(Classes(3), alpha=0.1, tol=0.1, random_state=0).fit(X, y)
    assert model.result_.status == "converged"
    assert 0 <= model.result_.relative_gap <= 0.1
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(model.coef_, again.coef_)


@pytest.mark.parametrize("average", ["last", "mean", "tail"])
def test_streams(multiclass, average):
    X, y = multiclass
    settings = FEW | {"batch_size": "all", "average": average}
    whole = PegasosStructured(Classes(3), **settings).fit(X, y)
    stream = PegasosStructured(Classes(3), **settings)
    for _ in range(6):
        stream.partial_fit(X, y)
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-9, atol=1e-13)
    assert stream.result_.gap == np.inf and stream.result_.status == "partial_fit"
    stream.partial_fit(X[:50], y[:50]).partial_fit(X[50:51], y[50:51])
    assert np.isfinite(stream.coef_).all()


def test_a_checkpoint_of_other_weights_is_refused(multiclass, tmp_path):
    X, y = multiclass[0][:20], multiclass[1][:20]
    model = PegasosStructured(Classes(3), **FEW)
    model.fit_stream([(X, y, np.arange(20.0))], checkpoint=tmp_path / "state")
    with pytest.raises(ValueError, match="the first block of the data is another one"):
        model.fit_stream([(X, y, np.arange(1.0, 21.0))], checkpoint=tmp_path / "state")


def test_a_feature_map_whose_length_changes(multiclass):
    X, y = multiclass

    class Growing(Classes):
        calls = 0

        def joint_features(self, x, y):
            self.calls += 1
            row = super().joint_features(x, y)
            return row if self.calls < 30 else row[:, :-1]

    model = PegasosStructured(Growing(3), **FEW)
    with pytest.raises(ValueError, match="29 numbers, but 30 before: its length must not change"):
        model.fit(X, y)
    assert model.result_.status == "interrupted" and np.isfinite(model.coef_).all()
    stream = PegasosStructured(Classes(3), **FEW).partial_fit(X, y)
    with pytest.raises(ValueError, match="length must not change"):
        stream.partial_fit(X[:, :4], y)


@pytest.mark.parametrize(
    ("method", "wrong", "words"),
    [
        ("joint_features", lambda x, y: np.full(3, np.nan), "NaN"),
        ("joint_features", lambda x, y: np.ones((2, 3)), "one row"),
        ("joint_features", lambda x, y: np.ones((1, 3)) * 1j, "real numbers"),
        ("joint_features", lambda x, y: np.ones((1, 0)), "one row"),
        ("loss", lambda y, other: -1.0, "not negative"),
        ("loss", lambda y, other: np.nan, "not negative"),
        ("loss", lambda y, other: None, "loss must return a number, got None"),
        ("loss", lambda y, other: "much", "loss must return a number, got 'much'"),
        ("decode", None, "no decode"),
    ],
)
def test_bad_problems(multiclass, method, wrong, words):
    problem = Classes(3)
    setattr(problem, method, wrong)
    with pytest.raises(ValueError, match=words):
        PegasosStructured(problem, **FEW).fit(*multiclass)


def test_bad_input(multiclass):
    X, y = multiclass
    for data, words in (((X, y[:-1]), "inconsistent"), ((X[:0], y[:0]), "no examples")):
        with pytest.raises(ValueError, match=words):
            PegasosStructured(Classes(3)).fit(*data)
    for parameters, words in (({"alpha": -1}, "alpha"), ({"batch_size": 500}, "exceeds")):
        with pytest.raises(ValueError, match=words):
            PegasosStructured(Classes(3), **parameters).fit(X, y)
    with pytest.raises(ValueError, match="must have the methods"):
        PegasosStructured(None).fit(X, y)
    with pytest.raises(ValueError, match=r"problem is a class: pass an object, Classes\(\)"):
        PegasosStructured(Classes).fit(X, y)
    for no_sequence in (None, {1, 2}, {"a": 1}):
        words = rf"y must be a sequence .* got a {type(no_sequence).__name__}"
        with pytest.raises(ValueError, match=words):
            PegasosStructured(Classes(3)).fit(X, no_sequence)
    model = PegasosStructured(Classes(3), **FEW).fit(X, y)
    with pytest.raises(ValueError, match="X is one sparse matrix"):
        model.predict(sparse.csr_array(X))


def test_bad_losses_in_a_score(multiclass):
    model = PegasosStructured(Classes(3), **FEW).fit(*multiclass)
    model.problem.loss = lambda y, other: None
    with pytest.raises(ValueError, match="loss must return a number, got None"):
        model.score(*multiclass)


def test_errors_of_the_problem_reach_the_caller(multiclass):
    X, y = multiclass

    class Failing(Classes):
        def loss(self, y, other):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        PegasosStructured(Failing(3), **FEW).fit(X, y)


def test_a_block_that_failed_can_be_given_again(multiclass):
    X, y = multiclass
    model, other = (PegasosStructured(Classes(3), **FEW).partial_fit(X, y) for _ in range(2))
    coef, broken = model.coef_.copy(), X.copy()
    broken[len(X) // 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(broken, y)
    np.testing.assert_array_equal(model.coef_, coef)
    np.testing.assert_array_equal(model.partial_fit(X, y).coef_, other.partial_fit(X, y).coef_)


def test_features_that_are_no_numbers(multiclass):
    with pytest.raises(ValueError, match="joint_features must return numbers"):
        PegasosStructured(Classes(3, lambda row: ["text"]), **FEW).fit(*multiclass)


def test_weights_are_read_only(multiclass):
    X, y = multiclass

    class Writing(Classes):
        def loss_augmented_decode(self, weights, x, y):
            weights[0] = 1
            return y

    with pytest.raises(ValueError, match="read-only"):
        PegasosStructured(Writing(3), **FEW).fit(X, y)


def test_an_interrupt_leaves_the_model_so_far(multiclass, interrupt_after):
    X, y = multiclass
    model = PegasosStructured(Classes(3), **FEW | {"tol": 0, "max_iter": 10**9})
    interrupt_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.result_.status == "interrupted" and model.n_iter_ > 0
    assert model.score(X, y) > -0.5


def test_a_limit_is_warned_of():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = PegasosStructured(Classes(2), **(FEW | {"tol": 1e-9}))
    said = r"PegasosStructured stopped at max_iter=6 .* Raise max_iter or tol, or raise alpha\.$"
    with pytest.warns(ConvergenceWarning, match=said):
        model.fit(list(X), list((X[:, 0] > 0).astype(int)))


def test_a_larger_tol_is_reached_sooner(multiclass):
    """An epoch of few examples costs as much as a certificate: none waits for many of them."""
    X, y = multiclass
    epochs = [
        PegasosStructured(Classes(3), alpha=0.02, tol=tol, random_state=0)
        .fit(list(X[:40]), list(y[:40]))
        .n_iter_
        for tol in (0.3, 0.01)
    ]
    assert 2 * epochs[0] < epochs[1] < 100


@pytest.mark.parametrize("method", ["fit", "score"])
def test_examples_that_are_none(multiclass, method):
    X, y = multiclass
    model = PegasosStructured(Classes(3), max_iter=1).fit(list(X), list(y))
    with pytest.raises(ValueError, match="pass a list"):
        getattr(model, method)(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="no examples"):
        getattr(model, method)([], [])
