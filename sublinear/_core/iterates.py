"""Which iterates of a sub-gradient method become its model.

The iterates are those of a WeightVector, or of a solver with five of its members: `to_array()`, the
present one; `sum_of_iterates()` and `n_averaged`, the sum and the number of those counted since
`restart_average()`, or `set_average(sum, n_averaged)`. The first two return arrays of their own.
A choice has

    counts       whether iterates must be counted, and `averages`, whether summed too
    keeps_best   whether `models` returns several, of which the one with the best objective counts
    next_record    `record(iterates)` is to be called when that many iterates are counted
    models(iterates)             the candidates, arrays of their own (float64)
    state(n_averaged, sum_of_iterates), resume(iterates, state, like)

A state is flat and holds the iterates counted; one of another choice is ignored by `resume`, whose
`like` is an array of the shape of an iterate.
"""

import math

import numpy as np

from sublinear._core.states import LARGEST, refusal, take

NEVER = LARGEST


class Last:
    """The last iterate."""

    name = "last"
    counts = averages = keeps_best = False
    next_record = NEVER

    def __init__(self, seed):
        pass

    def record(self, iterates):
        pass

    def models(self, iterates):
        return [iterates.to_array()]

    def state(self, n_averaged, sum_of_iterates):
        return {
            "average": self.name,
            "next_record": self.next_record,
            "n_averaged": n_averaged,
            "sum_of_iterates": sum_of_iterates,
        }

    def resume(self, iterates, state, like):
        name = take(state, "average", "")
        if name not in AVERAGES:
            raise refusal(state, "average", f"is none of {tuple(AVERAGES)}")
        if name == self.name:
            self._resume(state, like)
            total = take(state, "sum_of_iterates", like) if self.averages else 0.0
            iterates.set_average(total, take(state, "n_averaged", 0))

    def _resume(self, state, like):
        self.next_record = take(state, "next_record", 0)


class Mean(Last):
    """The mean of all iterates."""

    name = "mean"
    counts = averages = True

    def models(self, iterates):
        return [mean_with(iterates, 0, 0.0)]


class Tail(Mean):
    """The mean of the iterates since step 2^k, the greatest power of two up to half of them.

    Those since the greatest power of two are being counted; the sum of as many before is kept.
    """

    name = "tail"

    def __init__(self, seed):
        self.next_record = 1
        self.n_before, self.sum_before = 0, 0.0

    def record(self, iterates):
        self.next_record = 2 * iterates.n_averaged if self.n_before else 1
        self.sum_before = 0.0  # first, as the vectors may be long
        self.n_before, self.sum_before = iterates.n_averaged, iterates.sum_of_iterates()
        iterates.restart_average()

    def models(self, iterates):
        return [mean_with(iterates, self.n_before, self.sum_before)]

    def state(self, n_averaged, sum_of_iterates):
        before = {"n_before": self.n_before, "sum_before": self.sum_before}
        return super().state(n_averaged, sum_of_iterates) | before

    def _resume(self, state, like):
        super()._resume(state, like)
        self.n_before = take(state, "n_before", 0)
        self.sum_before = take(state, "sum_before", like if self.n_before else 0.0)


class Random(Last):
    """The better one of two iterates drawn at random: Lemma 3 of the Pegasos paper.

    Iterate t takes the place of the one kept with probability 1 / t, so that all are equally
    likely whenever the fit ends. Draws depend on the seed and t alone.
    """

    name = "random"
    counts = keeps_best = True

    def __init__(self, seed):
        self.seed = [int(word) for word in seed.generate_state(4)]
        self.next_record = 1
        self.next_picks, self.kept = [1, 1], [None, None]

    def record(self, iterates):
        picks, kept = list(self.next_picks), list(self.kept)
        for k in range(2):
            if picks[k] == self.next_record:
                kept[k] = iterates.to_array()
                draw = 1 - np.random.default_rng([*self.seed, self.next_record, k]).random()
                picks[k] = min(NEVER, math.floor(self.next_record / draw) + 1)
        self.next_picks, self.kept, self.next_record = picks, kept, min(picks)

    def models(self, iterates):
        if self.kept[0] is None:
            return [iterates.to_array()]
        return [kept.copy() for kept in self.kept]

    def state(self, n_averaged, sum_of_iterates):
        return super().state(n_averaged, sum_of_iterates) | {
            "seed": np.array(self.seed),
            "next_picks": np.array(self.next_picks),
            "kept_0": self.kept[0],
            "kept_1": self.kept[1],
        }

    def _resume(self, state, like):
        super()._resume(state, like)
        self.seed = take(state, "seed", np.array(self.seed)).tolist()
        self.next_picks = take(state, "next_picks", np.array(self.next_picks)).tolist()
        if self.next_record > 1:  # both are kept since the first iterate
            self.kept = [take(state, "kept_0", like), take(state, "kept_1", like)]


def mean_with(iterates, n_before, sum_before):
    """Return the mean of the iterates counted and of others, whose number and sum are given."""
    count = iterates.n_averaged + n_before
    if count == 0:
        return iterates.to_array()
    mean = iterates.sum_of_iterates()
    if n_before > 0:
        mean += sum_before
    mean /= count
    return mean


AVERAGES = {choice.name: choice for choice in (Last, Mean, Tail, Random)}


def choose(average, seed):
    """Return the choice of that name; `seed`, a SeedSequence, is for random ones."""
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {tuple(AVERAGES)}, got {average!r}")
    return AVERAGES[average](seed)


def certify_best(models, rounded, primal):
    """Return the candidate with the least primal value, rounded as it will be stored, and it."""
    models = [rounded(model) for model in models]
    primals = [primal(model) for model in models]
    best = int(np.argmin(primals))
    return models[best], primals[best]
