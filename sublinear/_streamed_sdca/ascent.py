"""Steps of single duals over a source.

An intercept with less penalty than its column is dealt with as in `_solvers.sdca`, by the method of
multipliers. The multiplier is part of w here, so that solvers need not know of it. How far from
balance the duals are is found during a pass.
"""

import numpy as np

from sublinear._core.examples import count_awake
from sublinear._core.flat_intercept import are_balanced
from sublinear._core.objective import balance_masses
from sublinear._core.random import RandomBits
from sublinear._core.starting_intercept import is_far_off
from sublinear._core.states import part_of, prefixed, restore, saved
from sublinear._solvers.sdca import BlockwiseSDCA

STATE = "duals", "sleep", "shifts", "moves", "masses", "certified", "of_ends"


def feasible_start(objective, duals, intercepts, other):
    """Return the nearest duals that are feasible, shrunk where that is better, and their w.

    Takes a pass over a StreamedObjective. Intercepts, if any, become the other one where no duals
    are better than zeros, or, which takes another pass, they are far off for these.
    """
    duals, ws = np.array(duals), np.zeros((len(duals), objective.n_weights))
    costs, at_zeros = np.zeros((2, len(duals)))
    for where, objectives in objective.blocks():
        for k, part in enumerate(objectives):
            part.make_feasible(duals[k, where])
            ws[k] += part.weights_of_dual(duals[k, where])
            costs[k] += part.cost_of(duals[k, where])
            at_zeros[k] += part.values_of_zeros()[0]
            objective.accesses += part.accesses
    for k, part in enumerate(objectives):
        offset = 0.0
        if intercepts is not None:
            offset = intercepts[k] - objective.constant * ws[k, -1]
        factor = part.shrinkage(ws[k], costs[k], offset, at_zeros[k])
        duals[k] *= factor
        ws[k] *= factor
        if factor == 0 and intercepts is not None:
            intercepts[k] = other
    if intercepts is not None and np.any(intercepts != other):
        models = [
            [np.append(w[:-1], b / objective.constant) for b in (intercept, other)]
            for w, intercept in zip(ws, intercepts, strict=True)
        ]
        primals, *_ = objective.certificate(models, lambda k, where, _: duals[k, where], ws)
        for k, (own, of_other) in enumerate(primals):
            if is_far_off(own, of_other):
                intercepts[k] = other
    return duals, ws


class StreamedAscent:
    """SDCA on all problems, which share every pass.

    Parameters
    ----------
    objective : StreamedObjective
    extent : Extent
    seeds : list of SeedSequence
        One for each problem.
    start : tuple of ndarrays
        As `feasible_start` returns; None means zeros.
    intercepts : ndarray of shape (n_problems,)
        Where those start that have a multiplier; None: they have none.

    Attributes
    ----------
    duals : ndarray of shape (n_problems, n_rows), float64
    masses : ndarray of shape (n_problems, 2), float64
        Of the positive and the negative duals of the blocks visited in the pass.
    """

    cost = 0.0  # of a pass, beside `work`
    least_rows = 1  # of a block

    def __init__(self, objective, extent, seeds, start, intercepts):
        self.objective = objective
        shape = (len(seeds), extent.n_rows)
        if start is None:
            start = np.zeros(shape), np.zeros((len(seeds), extent.n_weights))
        self.duals, ws = start
        self.sleep = np.zeros(shape, dtype=np.uint8)
        self.has_multiplier = intercepts is not None
        # of each problem: what the last weight exceeds that of w(duals) by; how much that grew at
        # the end of the last pass
        self.shifts, self.moves = np.zeros((2, len(seeds)))
        self.masses, self.certified = np.zeros((2, len(seeds), 2))  # now; at the last certificate
        self.of_ends = np.zeros((len(seeds), 2))  # `masses_of_ends`
        if self.has_multiplier:
            for k, w in enumerate(ws):
                self.shifts[k] = intercepts[k] / objective.constant - w[-1]
                w[-1] = intercepts[k] / objective.constant
        self.solvers = [
            BlockwiseSDCA(RandomBits(seed), w, extent.n_rows, extent.n_stored)
            for seed, w in zip(seeds, ws, strict=True)
        ]
        self.where, self.problem = None, 0  # the present block; the problem whose turn it is
        self.inside = False  # whether that has entered the block
        self.spent = False  # whether a problem has reached its limit

    @property
    def reads(self):
        """Feature values read for each problem."""
        return np.array([solver.accesses for solver in self.solvers])

    @property
    def work(self):
        """As SDCA counts it."""
        return sum(solver.work for solver in self.solvers)

    @property
    def certificate_growth(self):
        """As SDCA's."""
        return self.solvers[0].certificate_growth

    @property
    def estimates(self):
        """The gap and the primal value of every problem."""
        return [solver.estimate() for solver in self.solvers]

    @property
    def weights(self):
        """Those of every problem."""
        return [solver.w for solver in self.solvers]

    @property
    def is_between_blocks(self):
        """Whether the state can be saved within a pass."""
        return self.problem == 0 and not self.inside

    def begin(self):
        """Begin a pass."""
        self.masses[:] = self.of_ends[:] = 0
        for solver, sleep in zip(self.solvers, self.sleep, strict=True):
            solver.begin(count_awake(sleep))

    def visit(self, where, objectives, left, own):
        """Go on with a block; return True when all problems are done with it and may go on.

        Parameters
        ----------
        where : slice
            Of the examples.
        objectives : list of Objective
        left, own : float, ndarray of shape (n_problems,)
            Feature values that may be read now; and for each problem. When one of them has no more
            left, the others still have their turn.
        """
        self.where = where
        while self.problem < len(self.solvers):
            k, solver = self.problem, self.solvers[self.problem]
            if not self.inside:
                solver.enter(objectives[k], self.duals[k, where], self.sleep[k, where])
                self.inside = True
            before = solver.accesses
            if not solver.advance(before + min(left, own[k])):
                if left < own[k]:
                    return False
                self.spent = True
            left -= solver.accesses - before
            self.duals[k, where] = solver.leave()
            if self.has_multiplier:
                self.masses[k] += objectives[k].masses(self.duals[k, where])
                self.of_ends[k] += objectives[k].masses_of_ends(self.duals[k, where])
            self.problem, self.inside = k + 1, False
        if self.spent:
            return False
        self.problem = 0
        return True

    def end(self):
        """End a pass."""
        for solver in self.solvers:
            solver.end()
        if self.has_multiplier:
            share = 1 - self.objective.intercept_penalty
            for k, solver in enumerate(self.solvers):
                before, self.shifts[k] = self.shifts[k], share * solver.w[-1]
                self.moves[k] = self.shifts[k] - before
                solver.w[-1] += self.moves[k]

    def measured(self, rounded):
        """Return candidates, primal values, bound and w of duals of each problem, or None.

        None where that takes a certificate. Models are to be as they are `rounded`.
        """
        return None

    def found(self, at_end):
        """Return the models of every problem, and w of the duals or None.

        The models are w and, where it is kept, the mean of the pass. With a multiplier duals are to
        be balanced, by masses that take a pass unless one has just come to its end.
        """
        if self.inside:
            self.duals[self.problem, self.where] = self.solvers[self.problem].duals()
        models = []
        for solver, move in zip(self.solvers, self.moves, strict=True):
            w, *means = solver.candidates()
            for mean in means:
                if self.has_multiplier and at_end:
                    mean[-1] += move
            models.append([w, *means])
        if self.has_multiplier:
            self.certified = self._balancing(
                self.masses if at_end else self.objective.masses(self.duals)
            )
            return models, None
        return models, self.weights

    def _balancing(self, masses):
        """Return the masses by which to balance: as if they were right where little is wrong."""
        masses = masses.copy()
        for k, (solver, shift) in enumerate(zip(self.solvers, self.shifts, strict=True)):
            last = solver.w[-1]
            if not self.objective.is_out_of_balance(last, last - shift, solver.little):
                masses[k] = self.objective.mass(last), 0.0
        return masses

    def feasible_duals(self, k, where, part):
        """Return those of problem k and a block, once `found` has been called."""
        if not self.has_multiplier:
            return self.duals[k, where]
        duals = self.duals[k, where].copy()
        balance_masses(duals, self.certified[k], self.objective.mass(self.solvers[k].w[-1]))
        return duals

    def flat_problems(self, at_end):
        """Return the problems whose duals may suit several intercepts, with masses of their ends.

        As far as that is known: at the end of a pass.
        """
        return [pair for pair in enumerate(self.of_ends) if at_end and are_balanced(pair[1])]

    def adopt(self, k, duals, w, last_weight):
        """Take duals of a problem, with their w, and the weight of the constant column beside them.

        That is another one where there is a multiplier.
        """
        self.duals[k], self.sleep[k] = duals, 0
        solver = self.solvers[k]
        solver.w[:] = w
        if self.has_multiplier:
            # as if they were balanced: certificates took them as they are
            self.masses[k] = self.certified[k] = self.objective.mass(last_weight), 0.0
            solver.w[-1] = last_weight
            self.shifts[k], self.moves[k] = last_weight - w[-1], 0.0

    def release_duals(self, at_end):
        """Return the duals of each problem that a certificate takes; ends all other use."""
        if self.has_multiplier:
            masses = self._balancing(self.masses) if at_end else self.certified
            for solver, duals, pair in zip(self.solvers, self.duals, masses, strict=True):
                balance_masses(duals, pair, self.objective.mass(solver.w[-1]))
        return self.duals

    def state(self):
        """Return what `set_state` needs to go on between two blocks, a flat dict."""
        state = saved(self, STATE)
        for k, solver in enumerate(self.solvers):
            state |= prefixed(k, solver.state())
        return state

    def set_state(self, state):
        """Go on from a `state()`."""
        restore(self, STATE, state)
        for k, solver in enumerate(self.solvers):
            solver.set_state(part_of(state, k))
