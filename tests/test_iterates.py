"""Which iterates become the model: for every method of sub-gradient steps."""

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.datasets import make_classification
from test_structured import Classes

from sublinear import PegasosClassifier, PegasosStructured, SequencePegasos
from sublinear._core.iterates import Random, choose


class Watched:
    """What an output looks at: iterate t is t itself."""

    def __init__(self, seed):
        self.output, self.t = Random(np.random.SeedSequence(seed)), 0

    def to_array(self):
        return self.t

    def run(self, count):
        for t in range(self.t + 1, self.t + count + 1):
            self.t = t
            if self.t == self.output.next_record:
                self.output.record(self)
        return self.output.kept


@pytest.mark.parametrize("T", [2, 7])
def test_random_iterates_are_uniform_and_independent(T):
    """Lemma 3 of the paper: all pairs of iterates are equally likely (chi-square, 99.9 %)."""
    pairs = np.array([Watched(seed).run(T) for seed in range(1000)])
    assert pairs.min() >= 1 and pairs.max() <= T
    counts = np.bincount((pairs[:, 0] - 1) * T + pairs[:, 1] - 1, minlength=T * T)
    expected = 1000 / T**2
    assert np.sum((counts - expected) ** 2) / expected <= chi2.ppf(0.999, T * T - 1)


def test_an_unknown_choice():
    with pytest.raises(ValueError, match="average must be one of"):
        choose("median", np.random.SeedSequence(0))


def steps_of(method):
    """Return (average, max_iter) -> (weights, result) of a fit with one step an epoch."""
    X, y = make_classification(60, 6, n_informative=4, n_classes=3, random_state=0)
    # with less regularisation zeros may be better than all of the first iterates
    common = {"alpha": 20.0, "batch_size": "all", "tol": 0, "random_state": 0}
    model, data = {
        "binary": (PegasosClassifier(**common), (X, y == 0)),
        "joint": (PegasosClassifier(multi_class="joint", **common), (X, y)),
        "chain": (SequencePegasos(**common), (X, y, np.full(12, 5))),
        "structured": (PegasosStructured(Classes(3), **common), (list(X), list(y))),
    }[method]

    def fit(average, max_iter):
        model.set_params(average=average, max_iter=max_iter).fit(*data)
        return model.coef_, model.result_

    return fit


@pytest.mark.parametrize("method", ["binary", "joint", "chain", "structured"])
def test_a_random_iterate_is_one_of_them_and_its_primal_value_its_own(method):
    fit = steps_of(method)
    weights, result = fit("random", 8)
    iterates = [fit("last", T) for T in range(1, 9)]
    same = [np.array_equal(weights, other) for other, _ in iterates]
    assert any(same)
    assert result.primal == pytest.approx(iterates[same.index(True)][1].primal, rel=1e-12)
    assert result.dual <= result.primal


@pytest.mark.parametrize("method", ["binary", "joint", "chain", "structured"])
def test_mean_and_tail_are_means_of_iterates(method):
    fit = steps_of(method)
    iterates = np.array([fit("last", T)[0] for T in range(1, 7)])
    np.testing.assert_allclose(fit("mean", 6)[0], iterates.mean(axis=0), rtol=1e-9, atol=1e-12)
    tail = iterates[2:].mean(axis=0)  # 2 is the largest power of two up to 3
    np.testing.assert_allclose(fit("tail", 6)[0], tail, rtol=1e-9, atol=1e-12)
