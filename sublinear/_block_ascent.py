"""Dual ascent by partitions that work at the same time: CoCoA+ (see `_partitions`).

    each round, partition k:   c_k, conjugate_k = passes of SDCA around w, with alpha / sigma
    here:                      w += gamma sum_k c_k,   duals follow

One vector of the length of w travels to every partition, one comes back.

combination="safe": gamma = 1, sigma = the number of partitions; the dual value cannot fall.
combination="adaptive", which goes beyond the paper: gamma <= 1 maximises

    D(gamma) - D(0) >= - gamma sum_k conjugate_k / W - alpha (gamma <w, c> + gamma^2 / 2 |c|^2),

which the convexity of the conjugates gives from what was sent anyway. So the dual value cannot fall
either, and sigma may be less: where the maximiser was below 1, the next sigma is larger by as much;
where it was well above, smaller by a fifth.

A partition that is lost begins anew: the others tell their parts of w(a), the new one makes a pass
of its own from duals of zero, and the fit goes on.
"""

import numpy as np

from sublinear._partitions import inner

COMBINATIONS = ("adaptive", "safe")
ROOM = 1.2  # the least maximiser after which sigma becomes smaller
SMALLER = 0.8  # by this factor: not often, since a change wakes up all sleeping examples
LARGER = 4.0  # by this factor at the most
MOST_LOSSES = 5  # in one request


class PartitionsLost(Exception):
    """Some partitions are gone, with their duals.

    Parameters
    ----------
    indices : set of int
    """

    def __init__(self, indices):
        super().__init__(f"partitions lost: {sorted(indices)}")
        self.indices = indices


class WholeObjective:
    """The objective of all partitions together, as `_drive` wants it."""

    def __init__(self, solver):
        self.solver = solver
        self.accesses = 0

    def at_zeros(self):
        """Return zero weights, their primal value and the dual value of zero duals."""
        parts = self.solver.insist(lambda: self.solver.partitions.ask("at_zeros"))
        return (np.zeros_like(self.solver.w), *map(sum, zip(*parts, strict=True)))


class BlockDualAscent:
    """CoCoA+ as a solver for `_drive`: a round is an iteration.

    Parameters
    ----------
    partitions : LocalPartitions or the like
    problem : Problem
    n_weights, n_stored : int
        Length of w; feature values of all rows.
    combination : {"adaptive", "safe"}
    passes : int
        Of every partition in a round.
    """

    keeps_best = True
    diverged = False
    certificate_growth = 2.0

    def __init__(self, partitions, problem, *, n_weights, n_stored, combination, passes):
        self.partitions, self.problem = partitions, problem
        self.adaptive, self.passes = combination == "adaptive", passes
        self.n_stored = n_stored
        self.w = np.zeros(n_weights)
        self.sigma, self.gamma = float(len(partitions)), 1.0
        self.n_iter = self.accesses = self.work = self.n_lost = 0
        self.estimated_gap = np.inf
        self.objective = WholeObjective(self)
        self.insist(self._begin)

    def advance(self, limit):
        """Make a round and return True, or do nothing if it might exceed the limit."""
        if self.accesses + self.passes * self.n_stored > limit:
            return False
        trials = self.insist(self._round)
        self.n_iter += 1
        changes = [trial.change for trial in trials]
        change = sum(changes[1:], changes[0].copy())
        square = inner(change, change)
        if self.adaptive and square > 0:
            self._adapt(change, square, sum(trial.conjugate for trial in trials))
        self.w = self.w + self.gamma * change
        self.accesses += sum(trial.accesses for trial in trials)
        self.work += sum(trial.work for trial in trials)
        primal = sum(trial.loss for trial in trials) + self._penalty(self.w)
        self.estimated_gap = sum(trial.gap for trial in trials) / max(primal, 1e-300)
        return True

    def _round(self):
        return self.partitions.ask(
            "round", self.n_iter + 1, self.gamma, self.w, self.sigma, self.passes
        )

    def _adapt(self, change, square, conjugate):
        """Choose gamma for this round and sigma for the next one."""
        alpha = self.problem.alpha
        slope = -conjugate / self.problem.total_weight - alpha * inner(self.w, change)
        best = slope / (alpha * square)
        self.gamma = min(1.0, max(0.0, best))
        if best < 1:
            self.sigma *= min(LARGER, 1 / max(best, 1 / LARGER))
        elif best > ROOM:
            self.sigma *= SMALLER
        self.sigma = min(max(self.sigma, 1.0), float(len(self.partitions)))

    def _penalty(self, w):
        return self.problem.alpha / 2 * inner(w, w)

    def model(self):
        """Return the weights."""
        return self.w

    def certify(self, rounded):
        """Return w with its certificate (`_drive`)."""

        def request():
            return self.partitions.ask(
                "certify", self.n_iter + 1, self.gamma, self.w, rounded(self.w)
            )

        losses, conjugates = zip(*self.insist(request), strict=True)
        self.objective.accesses += self.n_stored
        model = rounded(self.w)
        total = self.problem.total_weight
        primal = self._penalty(model) + sum(losses) / total
        dual = self._penalty(self.w) - sum(conjugates) / total
        return model, primal, min(dual, primal)  # rounding must not make the gap negative

    def insist(self, request):
        """Return request(), however many partitions must be rebuilt for it."""
        lost = set()
        for _ in range(MOST_LOSSES):
            try:
                if lost:
                    self._recover(lost)
                    lost = set()
                return request()
            except PartitionsLost as error:
                self.n_lost += len(error.indices)
                lost |= error.indices
        raise RuntimeError(
            f"partitions {sorted(lost)} were lost {MOST_LOSSES} times in a row: their workers die "
            "with them, perhaps for want of memory"
        )

    def _begin(self):
        self._open(None)
        self.w = np.zeros_like(self.w)

    def _open(self, only):
        return self.partitions.ask("open", self.problem, self.w.size, only=only)

    def _recover(self, lost):
        """Rebuild what is lost; w becomes that of the duals that are left, after one pass there."""
        self.partitions.rebuild(lost)
        self._open(lost)
        w = sum(self.partitions.ask("restore", self.n_iter + 1, self.gamma), 0.0 * self.w)
        for k in sorted(lost):
            ((change, accesses, work),) = self.partitions.ask("catch_up", w, only={k})
            w = w + change
            self.accesses += accesses
            self.work += work
        self.objective.accesses += self.n_stored
        self.w = w
