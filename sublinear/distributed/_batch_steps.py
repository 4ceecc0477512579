"""Pegasos with large batches, whose sub-gradients partitions compute: a round is a step.

Paper: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for
SVM" (2011), Figure 2, whose batches may be spread over machines.

    each round, partition k:   g_k = sum over its share B_k of the batch of s_i l'(<w, x_i>) x_i
    here:                      w <- (1 - |B| / N) w - n / (W alpha N) sum_k g_k
                               w <- the nearest point with |w| <= radius                 (optional)

N is the number of examples of all batches so far, so 1 / (alpha N) is eta_t / |B| where batches are
equal. A partition's share is its part of all rows: it goes through its rows in random orders of its
own, and after t rounds of b examples it has used the first floor(t b n_k / n) of them.

What a round does depends on its number and w alone. So a partition that is lost costs the round,
and its part of the certificate's duals, the means of -l' over the draws of each row since then.
"""

import numpy as np

from sublinear._archive import part_of
from sublinear._core.iterates import choose
from sublinear.distributed._partitions import Partition, Rounds


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
        """Make feasible duals; return this partition's part of w(a)."""
        self.duals = []
        rate = self.starts[-1] / max(self.n_drawn, 1)
        for objective, pull in zip(self.objectives, self.pulls, strict=True):
            weights = objective.weights_array
            duals = rate * pull
            if weights is not None:
                duals = np.divide(duals, weights, out=np.zeros_like(duals), where=weights > 0)
            objective.make_feasible(duals)
            self.duals.append(duals)
        return (self.weights_of(self.duals),)

    def certify(self, w, models):
        """Return `sums` for the duals of the last `dual_weights`."""
        return self.sums(w, self.duals, models)

    def state(self):
        """Return what `set_state` needs."""
        state = {f"pull.{k}": pull for k, pull in enumerate(self.pulls)}
        return state | {"n_drawn": self.n_drawn, "last": self.last}

    def set_state(self, state):
        """Go on from a `state()`."""
        self.n_drawn, self.last = int(state["n_drawn"]), int(state["last"])
        for k, pull in enumerate(self.pulls):
            pull[:] = state[f"pull.{k}"]


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
    ):
        self.sizes, self.widest, self.batch_size = sizes, widest, batch_size
        self.w, self.total = np.zeros(n_weights), np.zeros(n_weights)
        self.n_averaged = 0
        self.output = choose(average, problem.seed)
        self.keeps_best = self.output.keeps_best
        super().__init__(partitions, problem, n_weights=n_weights, n_stored=n_stored)
        self.radius = np.inf
        if projection:
            _, primal, _ = self.objective.at_zeros()
            self.radius = np.sqrt(primal / problem.alpha)

    def _drawn(self, rounds):
        """Return how many rows every partition has used after so many rounds."""
        n_rows = sum(self.sizes)
        return [rounds * self.batch_size * size // n_rows for size in self.sizes]

    def advance(self, limit):
        """Take a step and return True, or do nothing if it might exceed the limit."""
        starts, stops = self._drawn(self.n_iter), self._drawn(self.n_iter + 1)
        before, after = sum(starts), sum(stops)
        if self.accesses + (after - before) * self.widest > limit:
            return False
        gradient, rests = self.insist(
            lambda: self.partitions.total("round", self.n_iter + 1, self.w, starts, stops)
        )
        self.n_iter += 1
        n_read = sum(read for (read,) in rests)
        self.accesses += n_read
        self.work += n_read + after - before
        if after > before:
            scale = sum(self.sizes) / self.problem.total_weight
            self.w = (before / after) * self.w - scale / (self.problem.alpha * after) * gradient
            length = np.sqrt(np.add.reduce(self.w * self.w))
            if length > self.radius:
                self.w *= self.radius / length
        if self.output.counts:
            self.n_averaged += 1
            if self.output.averages:
                self.total += self.w
            if self.n_averaged == self.output.next_look:
                self.output.look(self)
        return True

    def to_array(self):
        """Return the present weights as an array of their own."""
        return self.w.copy()

    def sum_of_iterates(self):
        """Return the sum of the iterates so far."""
        return self.total.copy()

    def set_average(self, sum_of_iterates, n_averaged):
        """Let there be that many iterates of this sum."""
        self.total[:] = sum_of_iterates
        self.n_averaged = int(n_averaged)

    def model(self):
        """Return the weights chosen by the average."""
        return np.array(self.output.models(self)[0])

    def certify(self, rounded):
        """Return the best model with its certificate, that of the mean pulls (`_drive`)."""
        models = [rounded(model) for model in self.output.models(self)]

        def request():
            w, _ = self.partitions.total("dual_weights")
            return w, self.partitions.ask("certify", w, models)

        w, sums = self.insist(request)
        self.objective.accesses += self.n_stored  # for w(a)
        return self._certificate(sums, w, models)

    def state(self):
        """As Rounds.state."""
        output = {f"output.{name}": value for name, value in self.output.state(self).items()}
        return super().state() | output | {"w": self.w}

    def set_state(self, state):
        """As Rounds.set_state."""
        super().set_state(state)
        self.w = np.array(state["w"])
        self.output.resume(self, part_of(state, "output"))

    def _begin(self):
        self._recover(None)

    def _recover(self, lost):
        self.partitions.ask("open", self.problem, self.n_weights, only=lost)
