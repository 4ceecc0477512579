"""Pegasos with large batches, whose sub-gradients partitions compute: a round is a step.

Paper: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for
SVM" (2011), Figure 2, whose batches may be spread over machines.

    each round, partition k:   g_k = sum over its share B_k of the batch of s_i l'(<w, x_i>) x_i
    here:                      w <- (1 - |B| / N) w - n / (W alpha N) sum_k g_k
                               w <- the nearest point with |w| <= radius                 (optional)

N is the number of examples of all batches so far, so 1 / (alpha N) is eta_t / |B| where batches are
equal. A partition's share is its part of all rows: it goes through its rows in random orders of its
own, and after t rounds of b examples it has used the first floor(t b n_k / n) of them.

What becomes of an intercept b is as in `_solvers.pegasos`: it is the last weight, that of a column
of ones, and either takes sub-gradient steps of its own or stays until a search moves it.

What a round does depends on its number and w alone. So a partition that is lost costs the round,
and its part of the certificate's duals, the means of -l' over the draws of each row since then.
"""

import itertools
import math

import numpy as np

from sublinear._core.inner import inner
from sublinear._core.iterates import choose
from sublinear._core.minorants import BiasSearch
from sublinear._core.objective import balance_masses
from sublinear._core.states import fill, part_of, prefixed, restore, saved, take
from sublinear.distributed._partitions import Partition, Rounds

COUNTS = "n_drawn", "last"
ITERATE = "w", "n_counted", "n_before", "next_bias"
SAME = 1e-9  # relative: what rounding leaves of the sums that tell one problem from another


class BatchPartition(Partition):
    """Rows with the pull of their sub-gradients."""

    def open(self, problem, n_weights):
        """Begin a problem, in any round."""
        super().open(problem, n_weights)
        sizes = [objective.matrix.n_rows for objective in self.objectives]
        self.starts = np.cumsum([0, *sizes])
        self.pulls = [np.zeros(size) for size in sizes]
        self.n_drawn = self.last = 0
        self.epoch = self.order = None

    def begin(self, pulls, n_drawn):
        """Go on from the pulls of so many draws."""
        ends = itertools.pairwise(self.starts)
        self.pulls = [pulls[first:last].copy() for first, last in ends]
        self.n_drawn = n_drawn

    def forget(self, counts):
        """Let the pulls weigh no more than those of so many draws."""
        count = counts[self.index]
        if self.n_drawn > count:
            for pull in self.pulls:
                pull *= count / self.n_drawn
            self.n_drawn = count

    def round(self, number, w, starts, stops):
        """Return the sum over this partition's share, and what it read.

        Asked again for the same round, it leaves the pulls alone.
        """
        rows = self._draws(starts[self.index], stops[self.index])
        pulls = self.pulls if number > self.last else [np.zeros_like(p) for p in self.pulls]
        if number > self.last:
            self.last, self.n_drawn = number, self.n_drawn + len(rows)
        total, n_read = np.zeros(self.n_weights), 0
        of_block = np.searchsorted(self.starts, rows, side="right") - 1
        for k, objective in enumerate(self.objectives):
            chosen = (rows[of_block == k] - self.starts[k]).astype(np.uint32)
            part, read = objective.subgradient(w, chosen, pulls[k])
            total += part
            n_read += read
        return total, n_read

    def _draws(self, first, last):
        """Return the rows at these places of the endless run of permutations, sorted by epoch."""
        n_rows, found = self.starts[-1], []
        while first < last:
            epoch, place = divmod(first, n_rows)
            stop = min(last, (epoch + 1) * n_rows)
            order = self._permutation(epoch)
            found.append(np.sort(order[place : place + stop - first]))
            first = stop
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def _permutation(self, epoch):
        if epoch != self.epoch:
            seed = self.problem.seed
            key = (*seed.spawn_key, self.index, epoch)
            random = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))
            self.epoch, self.order = epoch, random.permutation(self.starts[-1])
        return self.order

    def dual_weights(self):
        """Make feasible duals; return this partition's part of w(a), and their masses."""
        masses = self.masses()
        return self.weights_of(self.duals), masses

    def masses(self):
        """Make feasible duals; return the masses of positive and of negative ones."""
        self.duals = []
        rate = self.starts[-1] / max(self.n_drawn, 1)
        for objective, pull in zip(self.objectives, self.pulls, strict=True):
            self.duals.append(objective.duals_of(rate * pull))
        return self.masses_of(self.duals)

    def balance(self, masses):
        """Balance the duals, given the masses of all; return this partition's part of w(a)."""
        for duals in self.duals:
            balance_masses(duals, masses)
        return (self.weights_of(self.duals),)

    def certify(self, w, models):
        """Return `sums` for the duals made last."""
        return self.sums(w, self.duals, models)

    def problem_sums(self, v):
        """Return weighted sums of the targets and of their products with <x_i, v>.

        And those of their absolute values, which cannot cancel.
        """
        sums = np.zeros((2, 2))
        for objective in self.objectives:
            rows = np.arange(objective.matrix.n_rows, dtype=np.uint32)
            weights, targets = objective.weights_array, objective.targets_array
            targets = targets if weights is None else weights * targets
            terms = np.stack([targets, targets * objective.matrix.row_dots(v, rows)])
            sums += np.sum([terms, abs(terms)], axis=2)
        return sums

    def all_pulls(self):
        """Return the pulls of all rows."""
        return np.concatenate([np.empty(0), *self.pulls])

    def state(self):
        """Return what `set_state` needs."""
        return self._named_pulls() | saved(self, COUNTS)

    def set_state(self, state):
        """Go on from a `state()`."""
        restore(self, COUNTS, state)
        fill(self._named_pulls(), state)

    def _named_pulls(self):
        return {f"pull.{k}": pull for k, pull in enumerate(self.pulls)}


def is_same_problem(sums, others):
    """Tell whether `problem_sums` differ by rounding alone."""
    return bool(np.all(abs(sums - others) <= SAME * others[1]))


class BatchSteps(Rounds):
    """Large-batch Pegasos as a solver for `_drive`.

    Parameters
    ----------
    partitions, problem, n_weights, n_stored
        As in Rounds.
    sizes : list of int
        Rows of every partition.
    widest : int
        Feature values of the longest row.
    batch_size : int
        Rows of a batch; shares are rounded, so that a batch may have a few less or more.
    average : str
        As in `_core.iterates`.
    projection : bool
        Whether to project onto the ball that holds the optimum.
    bias : {"feature", "subgradient", "search"}
        How the intercept moves; but for "feature" the problem has a free constant of value 1.
    start : dict, default=None
        What `ending` returned, with `pulls` those of every partition. It is left where rows or
        targets are others.
    """

    certificate_growth = 1.5

    def __init__(
        self,
        partitions,
        problem,
        *,
        n_weights,
        n_stored,
        sizes,
        widest,
        batch_size,
        average,
        projection,
        bias="feature",
        start=None,
    ):
        self.sizes, self.widest, self.batch_size = sizes, widest, batch_size
        self.projection, self.bias, self.start = projection, bias, start
        self.w, self.total = np.zeros(n_weights), np.zeros(n_weights)
        self.n_averaged = self.n_counted = self.n_before = 0
        self.output = choose(average, problem.seed)
        self.keeps_best = self.output.keeps_best or bias == "search"
        self.radius = np.inf
        self.next_bias = 0.0  # where the search goes on from the last certificate
        super().__init__(partitions, problem, n_weights=n_weights, n_stored=n_stored)
        if problem.free_intercept:
            self._free_the_bias()
        self._find_radius()

    def _free_the_bias(self):
        if self.start is None:
            self.w[-1] = self.next_bias = float(self._target_moments(0.0)[0])
        if self.bias == "search":
            variance = self._target_moments(self.next_bias)[1]
            self.search = BiasSearch(math.sqrt(variance) or 1.0)

    def _target_moments(self, center):
        """Return the means of the targets, less a number, and of their squares."""
        sums = self.retrying(lambda: self.partitions.ask("target_moments", center))
        return sum(sums) / self.problem.total_weight

    def _find_radius(self):
        """Of the ball that holds the optimum, for the present intercept where that is searched."""
        if not self.projection:
            return
        if self.bias == "search":
            model = np.append(np.zeros(self.n_weights - 1), self.w[-1])
            losses = self.retrying(lambda: self.partitions.ask("loss_sum", model))
            primal = sum(losses) / self.problem.total_weight
            self.objective.accesses += self.n_stored
        else:
            _, primal, _ = self.objective.at_zeros()
        self.radius = np.sqrt(primal / self.problem.alpha)

    def _shares(self, count):
        """Return every partition's part of so many rows."""
        n_rows = sum(self.sizes)
        return [count * size // n_rows for size in self.sizes]

    def _drawn(self, rounds):
        """Return how many rows every partition has used after so many rounds of this fit."""
        return self._shares(self.n_before + rounds * self.batch_size)

    def advance(self, limit):
        """Take a step and return True, or do nothing if it might exceed the limit.

        Another intercept comes where the fit goes on from a certificate.
        """
        starts, stops = self._drawn(self.n_iter), self._drawn(self.n_iter + 1)
        size = sum(stops) - sum(starts)
        if self.accesses + size * self.widest > limit:
            return False
        if self.bias == "search" and self.next_bias != self.w[-1]:
            self._move_to(self.next_bias)
        gradient, rests = self.retrying(
            lambda: self.partitions.total("round", self.n_iter + 1, self.w, starts, stops)
        )
        self.n_iter += 1
        n_read = sum(read for (read,) in rests)
        self.accesses += n_read
        self.work += n_read + size
        if size > 0:
            self._step(size, gradient)
        if self.output.counts:
            self.n_averaged += 1
            if self.output.averages:
                self.total += self.w
            if self.n_averaged == self.output.next_record:
                self.output.record(self)
        return True

    def settle(self):
        """As that of Solver: the intercept stays."""
        self.next_bias = float(self.w[-1])

    def _step(self, size, gradient):
        """Go against the sum of so many sub-gradients."""
        before, self.n_counted = self.n_counted, self.n_counted + size
        scale = sum(self.sizes) / self.problem.total_weight
        rate = scale / (self.problem.alpha * self.n_counted)
        bias = self.w[-1] - (rate * gradient[-1] if self.bias == "subgradient" else 0.0)
        self.w = (before / self.n_counted) * self.w - rate * gradient
        weights = self.w[:-1] if self.problem.free_intercept else self.w
        length = np.sqrt(inner(weights, weights))
        if length > self.radius:
            weights *= self.radius / length
        if self.problem.free_intercept:
            self.w[-1] = bias

    def to_array(self):
        """Return the present weights as an array of their own."""
        return self.w.copy()

    def sum_of_iterates(self):
        """Return the sum of the iterates so far."""
        return self.total.copy()

    def restart_average(self):
        """Forget the iterates counted so far."""
        self.set_average(0.0, 0)

    def set_average(self, sum_of_iterates, n_averaged):
        """Let there be that many iterates of this sum."""
        self.total[:] = sum_of_iterates
        self.n_averaged = int(n_averaged)

    def model(self):
        """Return the weights chosen by the average."""
        return self.output.models(self)[0]

    def certify(self, rounded):
        """Return the best model with its certificate, that of the mean pulls (`_drive`)."""
        models = [rounded(model) for model in self.output.models(self)]

        def request():
            w, masses = self._dual_weights()
            return w, masses, self.partitions.ask("certify", w, models)

        w, masses, sums = self.retrying(request)
        self.objective.accesses += self.n_stored  # for w(a)
        model, primal, dual = self._certificate(sums, w, models)
        if self.bias == "search":
            dual = self._search(dual, masses)
        return model, primal, dual

    def _dual_weights(self):
        """Return w(a) of the partitions' duals, with the intercept, and the masses of the duals."""
        if self.bias == "subgradient":
            masses = np.sum(self.partitions.ask("masses"), axis=0)
            w, _ = self.partitions.total("balance", tuple(masses.tolist()))
            w[-1] = 0.0  # but for rounding
            return w, masses
        w, rests = self.partitions.total("dual_weights")
        if self.bias == "search":
            w[-1] = self.w[-1]
        return w, np.sum([masses for (masses,) in rests], axis=0)

    def _search(self, dual, masses):
        """Take the dual value at the present intercept; choose another; return the bound."""
        bias, (positive, negative) = float(self.w[-1]), masses.tolist()
        slope = (negative - positive) / self.problem.total_weight
        self.next_bias = self.search.after(bias, dual, slope)
        return self.search.bound

    def _move_to(self, bias):
        """Go on from here with another intercept, and with the longer steps of the second epoch."""
        n_rounds = -(-sum(self.sizes) // self.batch_size)
        self.n_counted = min(self.n_counted, n_rounds * self.batch_size)
        counts = self._shares(self.n_counted)
        self.retrying(lambda: self.partitions.ask("forget", counts))
        self.w = np.append(self.w[:-1], bias)
        self.output = choose(self.output.name, self.problem.seed)
        self.restart_average()
        self._find_radius()

    def ending(self):
        """Return what another fit needs to go on from here, a flat dict, and all pulls."""
        pulls, sums = self.retrying(
            lambda: (self.partitions.ask("all_pulls"), self._problem_sums())
        )
        n_drawn = self.n_before + self.n_iter * self.batch_size
        ending = self._iterate() | {"n_before": n_drawn, "problem": sums}
        return ending, np.concatenate(pulls)

    def _iterate(self):
        output = prefixed("output", self.output.state(self.n_averaged, self.total.copy()))
        return output | saved(self, ITERATE)

    def _set_iterate(self, state):
        restore(self, ITERATE, state)
        self.output.resume(self, part_of(state, "output"), self.w)

    def state(self):
        """As Rounds.state."""
        state = super().state() | self._iterate()
        if self.bias == "search":
            state |= self.search.state() | {"radius": self.radius}
        return state

    def set_state(self, state):
        """As Rounds.set_state."""
        super().set_state(state)
        self._set_iterate(state)
        if self.bias == "search":
            self.search = BiasSearch.from_state(state)
            self.radius = take(state, "radius", 0.0)

    def _begin(self):
        self._recover(None)
        start = self.start
        # small steps would not lead to another optimum
        if start is None or not is_same_problem(start["problem"], self._problem_sums()):
            self.start = None
            return
        self._set_iterate(start)
        counts = self._shares(self.n_counted)
        for k, part in enumerate(self.start["pulls"]):
            self.partitions.ask("begin", part, counts[k], only={k})

    def _problem_sums(self):
        """Return numbers that tell rows and targets from others."""
        v = 1 / np.arange(1.0, self.n_weights + 1)
        self.objective.accesses += self.n_stored
        return np.sum(self.partitions.ask("problem_sums", v), axis=0)

    def _recover(self, lost):
        self.partitions.ask("open", self.problem, self.n_weights, only=lost)
