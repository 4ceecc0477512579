"""SequencePegasos: Viterbi against brute force, the solver against its oracle, the estimator."""

import itertools
import pickle
import signal
import time

import numpy as np
import pytest
from reference import chain_pegasos as reference
from reference.pegasos import averaged
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from stepping import batches, bits

from sublinear import SequencePegasos, load_model, save_model
from sublinear._core.chain import ChainObjective, Chains
from sublinear._core.matrix import Matrix
from sublinear._core.order import SAMPLINGS
from sublinear._solvers.chain_pegasos import ChainPegasos
from sublinear.datasets import make_tagged_sequences

LENGTHS = np.array([3, 1, 5, 2, 4, 4, 1, 6, 2, 3])
AVERAGES = ("last", "mean", "tail")
FEW = {"alpha": 0.05, "random_state": 0, "max_iter": 30, "tol": 0}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Problem:
    """Ten short chains of 3 labels and 4 features."""

    def __init__(self, weighted=False, alpha=0.1):
        random = np.random.default_rng(0)
        self.X = random.normal(size=(LENGTHS.sum(), 4)) * (random.random((31, 4)) < 0.7)
        self.y = random.integers(0, 3, 31).astype(np.intc)
        self.offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
        self.weights = random.integers(0, 4, 10) / 2 if weighted else None
        self.alpha = alpha
        pairs = itertools.pairwise(self.offsets)
        self.sequences = [(self.X[a:b], self.y[a:b]) for a, b in pairs]
        self.sizes = np.array([np.count_nonzero(X) for X, _ in self.sequences])

    def objective(self, make=sparse.csr_array):
        chains = Chains(Matrix(make(self.X)), self.offsets, 3)
        return ChainObjective(chains, self.y, self.alpha, self.weights)

    def primal(self, array):
        w = reference.from_array(array, 3)
        return reference.primal(w, self.sequences, self.alpha, self.weights)


def random_weights(seed, d=4, k=3):
    return np.random.default_rng(seed).normal(size=(k + 1 + d, k))


# ---------------------------------------------------------------- Viterbi


@pytest.mark.parametrize("seed", range(5))
def test_decoding_is_that_of_brute_force(seed):
    problem, array = Problem(), random_weights(seed)
    w = reference.from_array(array, 3)
    chains = problem.objective().chains
    paths, scores = chains.best_paths(array)
    for i, (X, y) in enumerate(problem.sequences):
        best = reference.brute_force(w, X)
        found = paths[problem.offsets[i] : problem.offsets[i + 1]]
        np.testing.assert_array_equal(found, best)
        np.testing.assert_array_equal(reference.viterbi(w, X), best)
        assert scores[i] == pytest.approx(reference.score(w, X, best), rel=1e-12)
        augmented = reference.brute_force(w, X, y)
        np.testing.assert_array_equal(reference.viterbi(w, X, y), augmented)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_primal_is_that_of_brute_force(weighted):
    problem = Problem(weighted)
    for seed in range(3):
        array = 0.3 * random_weights(seed)
        w = reference.from_array(array, 3)
        augmented = [reference.brute_force(w, X, y) for X, y in problem.sequences]
        losses = [
            np.sum(p != y) + reference.score(w, X, p) - reference.score(w, X, y)
            for p, (X, y) in zip(augmented, problem.sequences, strict=True)
        ]
        mean = reference.shares(problem.weights, 10) @ losses
        expected = problem.alpha / 2 * np.sum(array**2) + mean
        assert problem.objective().primal(array) == pytest.approx(expected, rel=1e-12)
        assert problem.primal(array) == pytest.approx(expected, rel=1e-12)


def test_subgradients_by_finite_differences():
    """One step of rate 1 / alpha from w = 0 ends at minus the gradient of the loss, over alpha."""
    problem = Problem(alpha=1.0)
    solver = ChainPegasos(problem.objective(), bits(), batch_size=10, average="last")
    start = random_weights(7)
    solver.resume(solver.state() | {"w": start.ravel(), "n_steps": 1, "n_drawn": 10.0})
    solver.advance(2**60)
    # the second step: w <- (1 - 1/2) w - gradient / 2
    gradient = start - 2 * solver.model()
    step = 1e-6

    def loss(array):
        return problem.primal(array) - np.sum(array**2) / 2

    for place in np.ndindex(start.shape):
        shift = np.zeros(start.shape)
        shift[place] = step
        slope = (loss(start + shift) - loss(start - shift)) / (2 * step)
        assert gradient[place] == pytest.approx(slope, abs=1e-6)


# ---------------------------------------------------------------- solver


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("average", AVERAGES)
def test_step_by_step(average, sampling, size, weighted):
    problem = Problem(weighted)
    solver = ChainPegasos(
        problem.objective(), bits(), sampling=sampling, batch_size=size, average=average
    )
    drawn, shown = itertools.tee(batches(10, sampling, size))
    steps = reference.chain_pegasos(problem.sequences, 4, 3, problem.alpha, drawn, problem.weights)
    iterates, accesses = [], 0
    for w, batch in zip(itertools.islice(steps, 40), shown, strict=False):
        iterates.append(reference.as_array(w))
        accesses += problem.sizes[batch].sum()
        while solver.accesses < accesses:
            solver.advance(accesses)
        assert (solver.n_steps, solver.accesses) == (len(iterates), accesses)
        np.testing.assert_allclose(
            solver.model(), averaged(iterates, average), rtol=1e-9, atol=1e-11
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_certificates_are_bounds_at_any_time(sampling, weighted):
    problem = Problem(weighted)
    solver = ChainPegasos(
        problem.objective(), bits(), sampling=sampling, batch_size=3, average="tail"
    )
    primals, duals = [], []
    for limit in range(5, 20_000, 211):
        solver.advance(limit)
        model, primal, dual = solver.certify(np.copy)
        assert primal == pytest.approx(problem.primal(model), rel=1e-12)
        primals.append(primal)
        duals.append(dual)
    assert max(duals) <= min(primals)
    slow = sampling in ("replacement", "subsets")
    assert min(primals) - max(duals) < (0.3 if slow else 0.06) * min(primals)


def test_the_dual_value_is_that_of_the_paths_found():
    """After whole epochs: mean errors - alpha / 2 |w|^2, the errors of the oracle's paths."""
    problem = Problem()
    solver = ChainPegasos(problem.objective(), bits())
    errors, w = [], reference.zeros(4, 3)
    drawn, shown = itertools.tee(batches(10, "shuffle", 1))
    steps = reference.chain_pegasos(problem.sequences, 4, 3, problem.alpha, drawn)
    for after, (i,) in zip(itertools.islice(steps, 50), shown, strict=False):
        X, y = problem.sequences[i]
        errors.append(np.sum(reference.viterbi(w, X, y) != y))
        w = after
    for _ in range(5):
        solver.advance(2**60)
    expected = np.mean(errors) - problem.alpha / 2 * reference.norm_squared(w)
    assert solver.dual() >= expected - 1e-12
    c = min(1, np.mean(errors) / (problem.alpha * reference.norm_squared(w)))
    best = c * np.mean(errors) - c**2 * problem.alpha / 2 * reference.norm_squared(w)
    assert solver.dual() == pytest.approx(best, rel=1e-9)


def test_a_resumed_solver_has_no_dual_value():
    """It does not know the errors of the paths that made up the weights."""
    solvers = [ChainPegasos(Problem().objective(), bits()) for _ in range(2)]
    solvers[0].advance(2**60)
    solvers[1].resume(solvers[0].state())
    for solver, is_bound in zip(solvers, (True, False), strict=True):
        solver.advance(2**60)
        assert np.isfinite(solver.dual()) == is_bound


def test_slices_change_nothing():
    problem = Problem()

    def make():
        return ChainPegasos(problem.objective(), bits(), batch_size=3, average="tail")

    whole, sliced, limit = make(), make(), 0
    for _ in range(4):
        whole.advance(2**60)
    while sliced.n_iter < 4:
        limit += 29
        sliced.advance(limit)
        assert sliced.accesses <= limit
    np.testing.assert_array_equal(sliced.model(), whole.model())


# ---------------------------------------------------------------- estimator


@pytest.fixture(scope="module")
def tagged():
    """Counts times noise: with whole numbers, rounding would decide between equal paths."""
    X, y, lengths, _ = make_tagged_sequences(
        60, n_tags=4, n_symbols=30, mean_length=8, random_state=0
    )
    X.data *= np.random.default_rng(0).uniform(0.5, 1.5, X.nnz)
    return X, y, lengths


def split(X, y, lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    pairs = list(itertools.pairwise(offsets))
    return [X[a:b] for a, b in pairs], [y[a:b] for a, b in pairs]


def test_lists_and_lengths_are_the_same(tagged):
    X, y, lengths = tagged
    model = SequencePegasos(**FEW).fit(X, y, lengths)
    matrices, labels = split(X, y, lengths)
    other = SequencePegasos(**FEW).fit(matrices, labels)
    for name in ("coef_", "intercept_", "transition_", "start_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name))
    predicted = other.predict(matrices)
    assert [len(part) for part in predicted] == lengths.tolist()
    np.testing.assert_array_equal(np.concatenate(predicted), model.predict(X, lengths))
    assert other.score(matrices, labels) == model.score(X, y, lengths) > 0.6
    dense = SequencePegasos(**FEW).fit([part.toarray() for part in matrices], labels)
    np.testing.assert_array_equal(dense.coef_, model.coef_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_attributes_are_the_model(tagged, dtype, intercept):
    X, y, lengths = tagged
    X = X.toarray().astype(dtype)
    X.flags.writeable = False
    names = np.array(list("dbca"))[y]
    model = SequencePegasos(fit_intercept=intercept, intercept_scaling=2.0, **FEW)
    model.fit(X, names, lengths)
    assert model.classes_.tolist() == list("abcd")
    assert model.coef_.dtype == model.transition_.dtype == dtype
    assert model.coef_.shape == (4, 30) and model.transition_.shape == (4, 4)
    codes = np.searchsorted(model.classes_, names)
    rows = [model.transition_, model.start_[None], model.coef_.T]
    if intercept:
        X = np.column_stack([X, np.full(len(X), 2.0)])
        rows.append(model.intercept_[None] / 2)
    w = reference.from_array(np.vstack(rows).astype(float), 4)
    parts, labels = split(X, codes, lengths)
    sequences = list(zip(parts, labels, strict=True))
    expected = reference.primal(w, sequences, model.alpha)
    assert model.result_.primal == pytest.approx(
        expected, rel=1e-6 if dtype == np.float32 else 1e-12
    )
    found, scores = model.decode(X[:, :30], lengths)
    for i, part in enumerate(parts):
        path = reference.viterbi(w, part)
        assert scores[i] == pytest.approx(reference.score(w, part, path), rel=1e-5)
    np.testing.assert_array_equal(
        found, model.classes_[np.concatenate([reference.viterbi(w, part) for part in parts])]
    )


def test_the_gap_closes(tagged):
    X, y, lengths = tagged
    model = SequencePegasos(alpha=0.1, tol=0.02, max_iter=2000, random_state=0).fit(X, y, lengths)
    assert model.result_.status == "converged"
    assert model.result_.relative_gap <= 0.02
    traced = [row.dual for row in model.result_.trace]
    assert traced == sorted(traced)


def test_weights_equal_repetition(tagged):
    X, y, lengths = tagged
    X = X.toarray()
    weights = np.random.default_rng(0).integers(0, 3, len(lengths))
    settings = FEW | {"batch_size": "all"}
    weighted = SequencePegasos(**settings).fit(X, y, lengths, sample_weight=weights)
    matrices, labels = split(X, y, lengths)
    repeated = SequencePegasos(**settings).fit(
        [m for m, s in zip(matrices, weights, strict=True) for _ in range(s)],
        [m for m, s in zip(labels, weights, strict=True) for _ in range(s)],
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(weighted.result_.primal, repeated.result_.primal, rtol=1e-10)


@pytest.mark.parametrize("average", AVERAGES)
def test_streams(tagged, average):
    X, y, lengths = tagged
    settings = FEW | {"batch_size": "all", "average": average}
    whole = SequencePegasos(**settings | {"max_iter": 9}).fit(X, y, lengths)
    stream = SequencePegasos(**settings)
    for _ in range(9):
        stream.partial_fit(X, y, lengths, classes=range(4))
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-9, atol=1e-13)
    assert stream.result_.gap == np.inf
    blocks = SequencePegasos(**FEW)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for a, b in 10 * [(0, 25), (25, 26), (26, 60)]:
        rows = slice(offsets[a], offsets[b])
        blocks.partial_fit(X[rows], y[rows], lengths[a:b], classes=range(4))
    assert blocks.score(X, y, lengths) > 0.6


@pytest.mark.parametrize("change", [{"fit_intercept": False}, {"intercept_scaling": 10.0}])
def test_the_intercept_stays_as_it_is_from_block_to_block(change):
    problem = Problem()
    model = SequencePegasos(**FEW).partial_fit(problem.X, problem.y, LENGTHS, classes=range(3))
    before = pickle.loads(pickle.dumps(model))
    model.set_params(**change)
    with pytest.raises(ValueError, match="must not change between calls of partial_fit"):
        model.partial_fit(problem.X, problem.y, LENGTHS)
    np.testing.assert_array_equal(model.coef_, before.coef_)
    np.testing.assert_array_equal(model.intercept_, before.intercept_)


def test_scores_weigh_sequences(tagged):
    X, y, lengths = tagged
    matrices, labels = split(X, y, lengths)
    model = SequencePegasos(alpha=0.05, max_iter=3, tol=0, random_state=0).fit(X, y, lengths)
    weights = np.arange(len(lengths)) % 3
    repeated = np.repeat(np.arange(len(lengths)), weights)
    expected = model.score([matrices[i] for i in repeated], [labels[i] for i in repeated])
    assert expected != model.score(X, y, lengths)
    assert model.score(X, y, lengths, weights) == pytest.approx(expected, rel=1e-12)
    assert model.score(matrices, labels, sample_weight=weights) == pytest.approx(expected)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(X, y, lengths, sample_weight=np.ones(len(y)))
    with pytest.raises(ValueError, match="sample_weight is zero"):
        model.score(X, y, lengths, sample_weight=np.zeros(len(lengths)))


def test_transitions_matter():
    """Rows say nothing: the order of the labels, 0 1 2 0 1 2 .., alone can be learnt."""
    y = np.tile([0, 1, 2], 40)
    X = np.ones((120, 1))
    model = SequencePegasos(**FEW | {"alpha": 0.01}).fit(X, y, [6] * 20)
    assert model.score(X, y, [6] * 20) == 1.0


def test_seeds_pickles_and_clones(tagged):
    X, y, lengths = tagged
    model = SequencePegasos(**FEW | {"max_iter": 3}).fit(X, y, lengths)
    again = clone(model).fit(X, y, lengths)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    np.testing.assert_array_equal(again.fit(X, y, lengths).coef_, model.coef_)
    other = clone(model).set_params(random_state=1).fit(X, y, lengths)
    assert (other.coef_ != model.coef_).any()
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X, lengths), model.predict(X, lengths))
    with pytest.raises(NotFittedError):
        clone(model).predict(X, lengths)


def test_callbacks_and_budget(tagged):
    X, y, lengths = tagged
    seen = []

    def stop(snapshot):
        seen.append(snapshot)
        return len(seen) == 2

    model = SequencePegasos(alpha=0.05, random_state=0, callback=stop).fit(X, y, lengths)
    assert model.result_.status == "stopped"
    assert seen[0].coef.shape == (4, 30) and seen[0].intercept.shape == (4,)
    np.testing.assert_array_equal(seen[-1].coef, model.coef_)
    budget = SequencePegasos(alpha=0.05, max_accesses=500, random_state=0).fit(X, y, lengths)
    assert 400 < budget.result_.accesses <= 500


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ([3, 0, 28], r"lengths\[1\] is 0"),
        ([-1, 32], "at least one row"),
        ([], "one for each sequence"),
        ([[31]], "one for each sequence"),
        ([15.5, 15.5], "whole numbers"),
        ([30], "add up to 30, but X has 31"),
        ([2**62] * 4 + [31], f"add up to {2**64 + 31}, but X has 31"),
    ],
)
def test_bad_lengths(lengths, words):
    problem = Problem()
    with pytest.raises(ValueError, match=words):
        SequencePegasos().fit(problem.X, problem.y, lengths)
    model = SequencePegasos(**FEW).fit(problem.X, problem.y)
    with pytest.raises(ValueError, match=words):
        model.predict(problem.X, lengths)


def test_bad_input():
    problem = Problem()
    X, y = problem.X, problem.y
    matrices, labels = split(X, y, LENGTHS)
    for data, words in (
        ((matrices, labels[:-1]), "as many label sequences"),
        ((matrices, [*labels[:-1], labels[-1][:-1]]), "as long as its matrix"),
        ((matrices, labels, LENGTHS), "lengths must be None"),
        ((X, np.zeros(31)), "one class"),
        ((np.full_like(X, np.nan), y), "NaN"),
        ((X, y, LENGTHS, np.ones(31)), "inconsistent"),
        ((X, y, LENGTHS, -np.ones(10)), "negative"),
        (((matrix for matrix in matrices), labels), r"X is a generator: pass a list, list\(X\)"),
        ((matrices, iter(labels)), r"pass a list, list\(y\)"),
        (([], []), "there are no sequences"),
        (([*matrices[:-1], matrices[-1][:, :2]], labels), "matrix 1 has . columns, matrix 10 2 "),
        (([*matrices[:-1], matrices[-1][:, 0]], labels), "matrix 10 1 dimensions"),
        ((matrices, ["NVD"] * len(matrices)), "as many label sequences"),
        ((matrices, range(len(matrices))), "as many label sequences"),
    ):
        with pytest.raises(ValueError, match=words):
            SequencePegasos().fit(*data)
    for parameters, words in (
        ({"alpha": 0}, "alpha"),
        ({"sampling": "all"}, "sampling"),
        ({"average": "median"}, "average"),
        ({"batch_size": 11}, "exceeds the 10"),
        ({"callback": 3}, "callback"),
        ({"fit_intercept": 1}, "fit_intercept"),
    ):
        with pytest.raises(ValueError, match=words):
            SequencePegasos(**parameters).fit(X, y, LENGTHS)
    model = SequencePegasos(**FEW)
    with pytest.raises(ValueError, match="first call of partial_fit needs classes"):
        model.partial_fit(X, y, LENGTHS)
    model.partial_fit(X, y, LENGTHS, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X, np.full(31, 5), LENGTHS)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2], LENGTHS)
    with pytest.raises(ValueError, match="there are no sequences"):
        model.predict([])


def test_an_interrupt_leaves_the_model_so_far(tagged, interrupt_after):
    X, y, lengths = tagged
    model = SequencePegasos(**FEW | {"tol": 0, "max_iter": 10**9})
    interrupt_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y, lengths)
    assert model.result_.status == "interrupted" and model.n_iter_ > 0
    assert model.score(X, y, lengths) > 0.5


def test_data_frames_keep_the_names_of_their_columns():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(60, 2))
    frames = [pandas.DataFrame(part, columns=["u", "v"]) for part in np.split(X, 12)]
    y = [(frame["u"] > 0).to_numpy().astype(int) for frame in frames]
    model = SequencePegasos(random_state=0).fit(frames, y)
    assert model.feature_names_in_.tolist() == ["u", "v"]
    assert model.score(frames, y) == SequencePegasos(random_state=0).fit(
        [frame.to_numpy() for frame in frames], y
    ).score([frame.to_numpy() for frame in frames], y)
    swapped = [frame[["v", "u"]] for frame in frames]
    with pytest.raises(ValueError, match="same order"):
        model.score(swapped, y)
    with pytest.raises(ValueError, match="same columns"):
        model.fit([frames[0], swapped[1], *frames[2:]], y)


def test_scores_of_labels_in_a_column(tagged):
    X, y, lengths = tagged
    model = SequencePegasos(alpha=0.05, max_iter=3, tol=0, random_state=0).fit(X, y, lengths)
    assert model.score(X, y[:, np.newaxis], lengths) == model.score(X, y, lengths)
    for labels in (None, np.stack([y, y], axis=1)):
        with pytest.raises(ValueError, match="y should be a 1d array"):
            model.score(X, labels, lengths)


def test_predictions_are_those_of_the_fit_whatever_fit_intercept_has_become(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 1))
    y, lengths = np.where(X[:, 0] > 1, "a", "b"), [10] * 20
    model = SequencePegasos(alpha=1e-3, max_iter=50, tol=0, random_state=0).fit(X, y, lengths)
    labels, scores = model.decode(X, lengths)
    assert abs(model.intercept_).max() > 0.1
    model.set_params(fit_intercept=False)
    save_model(model, tmp_path / "model")
    for one in (model, load_model(tmp_path / "model")):
        again = one.decode(X, lengths)
        np.testing.assert_array_equal(again[0], labels)
        np.testing.assert_array_equal(again[1], scores)


def test_labels_are_needed():
    with pytest.raises(ValueError, match="requires y"):
        SequencePegasos().fit(np.eye(3), None)


def test_a_budget_for_no_step_leaves_a_finite_gap(tagged):
    result = SequencePegasos(max_accesses=1).fit(*tagged[:3]).result_
    assert result.status == "max_accesses" and 0 == result.dual < result.primal < np.inf


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer of signals here")
def test_predictions_of_one_long_sequence_can_be_interrupted():
    """In a single call of the compiled code, which takes seconds."""
    X, y = np.eye(200), np.arange(200)
    model = SequencePegasos(max_iter=1, tol=0).fit(X, y)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        began = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            model.predict(sparse.csr_array((100_000, 200)))
        spent = time.process_time() - began  # four billion operations take more than a second
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert spent < 1


@pytest.mark.parametrize("last", [sparse.csr_array, np.asarray])
def test_entries_beyond_the_last_row_of_a_sequence_are_nobody_s(last):
    random = np.random.default_rng(0)
    sequences = [random.normal(size=(5, 4)) for _ in range(4)]
    labels = [random.integers(0, 2, 5) for _ in sequences]
    models = []
    for n_beyond in (0, 2):
        X = [sparse.csr_array(rows) for rows in sequences]
        X[-1] = last(sequences[-1])
        for rows in X[:-1]:
            rows.data = np.append(rows.data, np.full(n_beyond, 100.0))
            rows.indices = np.append(rows.indices, np.zeros(n_beyond, dtype=np.int32))
        models.append(SequencePegasos(max_iter=5, tol=0, random_state=0).fit(X, labels))
        assert all(len(rows.data) == 20 + n_beyond for rows in X[:-1])
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
