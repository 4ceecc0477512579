"""The solver: two phases, of single steps and of Newton methods where these creep."""

import numpy as np

from sublinear._core.pace import relative_gap
from sublinear._core.solver import Solver
from sublinear._core.states import part_of, restore, saved, take
from sublinear._newton_passes import Certified, Crossing, PassesDone
from sublinear._streamed_sdca.newton import StreamedNewton
from sublinear._streamed_sdca.objective import stacked

READ_COST = 2**15  # feature values that could be looked at while a source begins another pass
READ_SHARE = 8  # or while it reads a value
STATE = "n_iter", "position", "row", "newton_reads", "newton_work"


class StreamedSDCA(Solver):
    """The solver that `_drive` runs: all problems of a source.

    Parameters
    ----------
    objective : StreamedObjective
    ascent : StreamedAscent
    max_accesses : float, default=inf
        Limit on the feature values read for each problem. The block in which one of them reaches it
        is the last one for all.
    plan : NewtonPlan, default=None
        None: there are only steps of single duals.

    Attributes
    ----------
    n_iter : int
        Passes completed.
    """

    keeps_best = True

    def __init__(self, objective, ascent, max_accesses=np.inf, plan=None):
        self.objective, self.ascent = objective, ascent
        self.max_accesses, self.crossing = min(max_accesses, 2**62), Crossing(plan)
        self.n_iter = 0
        self.blocks = self.block = None  # what is left of the pass; the present block of it
        self.position = self.row = 0  # of the present block, and of its first row
        self.newton = None  # StreamedNewton, while its methods are at work
        self.newton_work, self.newton_reads = 0.0, np.zeros(self.n_problems, dtype=np.int64)
        self.best = Certified(self.n_problems, objective.n_weights)

    @property
    def n_blocks(self):
        """Blocks of the source that were visited in all passes; of a pass that joins them, less."""
        return self.n_iter * self.objective.n_blocks + self.position

    @property
    def n_problems(self):
        """How many there are."""
        return len(self.objective.problems)

    @property
    def phase(self):
        """What is at work."""
        return self.newton or self.ascent

    @property
    def accesses(self):
        """Feature values read."""
        return int((self.ascent.reads + self.newton_reads).sum())

    @property
    def progress(self):
        """Passes completed, and the part of the present one."""
        return round(self.n_iter + self.row / self.objective.n_rows, 2)

    @property
    def work(self):
        """As SDCA counts it, and what it costs to read the source again, little as it may hold."""
        return self.ascent.work + self.newton_work + READ_COST * self.n_iter

    @property
    def certificate_growth(self):
        """As SDCA's; 1 where Newton methods seem worth their work."""
        return 1.0 if self.crossing.is_near else self.phase.certificate_growth

    @property
    def estimated_gap(self):
        """The relative gap of all problems together, estimated from a part of the last pass."""
        gap, primal = self._estimates()
        return relative_gap(primal, gap)

    def _estimates(self):
        gaps, primals = zip(*self.phase.estimates, strict=True)
        return sum(gaps), sum(primals)

    @property
    def between_blocks(self):
        """Whether the state can be saved."""
        return self.blocks is None or self.phase.is_between_blocks

    def advance(self, limit):
        """Go on until the pass ends, then return True; or until a block does, or the limit."""
        before = self.accesses
        if self.blocks is None:
            self._begin_pass()
        while self.accesses == before:
            own = self.max_accesses - self.ascent.reads - self.newton_reads
            if not self.phase.visit(*self.block, limit - self.accesses, own):
                return False
            self.position, self.row = self.position + 1, self.block[0].stop
            self.block = next(self.blocks, None)
            if self.block is None:
                self._end_pass()
                return True
        return False

    def _begin_pass(self):
        before = self.newton
        self.newton = self.crossing.turn(
            self._done, self.best, self.objective, before, self._make_newton
        )
        if self.newton and not before:
            self.ascent.certified = self.ascent.masses.copy()
        self.blocks = self.objective.blocks(self.row, self.phase.least_rows)
        self.block = next(self.blocks)
        if self.position == 0:
            self.phase.begin()

    def _end_pass(self):
        self.blocks, self.position, self.row = None, 0, 0
        self.n_iter += 1
        self.newton_work += self.phase.cost
        self.phase.end()
        if self.newton is None:
            self.crossing.look(self._done, *self._estimates(), self.best, self.objective)

    @property
    def _done(self):
        return PassesDone(self.n_iter, self.ascent.work, self.ascent.reads.max())

    def _make_newton(self, at_zeros):
        plan, duals = self.crossing.plan, self.ascent.duals
        return StreamedNewton(plan, self.best, at_zeros, self.objective, duals, self.newton_reads)

    def model(self):
        """Return the weights, of shape (n_problems, n_weights) or (n_weights,) for one."""
        return stacked(self.phase.weights)

    def certify(self, rounded):
        """Return the best models so far, and the sums of their values and of bounds (`_drive`)."""
        found = self.phase.measured(rounded) or self._certificates(rounded)
        for k, (*noted, of_duals) in enumerate(found):
            if self.best.note(k, *noted) and self.newton:  # dual ascent would go on from there
                self.newton.hand_over(k, of_duals, self.ascent)
        return stacked(self.best.models), self.best.least.sum(), self.best.bounds.sum()

    def _certificates(self, rounded):
        """Return what `measured` of a phase does; takes a pass."""
        models, ws = self.phase.found(self.blocks is None)
        candidates = [[rounded(w) for w in of_problem] for of_problem in models]
        primals, bounds, ws = self.objective.certificate(
            candidates, self.phase.feasible_duals, ws, self.phase.least_rows
        )
        found = list(zip(candidates, primals, bounds, ws, strict=True))
        return self._centred(found, rounded) if self.objective.intercept_penalty == 0 else found

    def _centred(self, found, rounded):
        """Return what was `found`, with the middle of the best intercepts where there are several.

        That takes another pass.
        """
        flat = {}
        for k, masses in self.phase.flat_problems(self.blocks is None):
            models, primals, bound, _ = found[k]
            best = int(np.argmin(primals))
            flat[k] = masses, models[best], primals[best], bound
        if flat:
            centred = self.objective.centred(flat, self.phase.duals, rounded)
            for k, (model, primal, bound) in centred.items():
                found[k] = [model], [primal], bound, found[k][-1]
        return found

    def release_duals(self):
        """Return the duals of each problem that a certificate takes; ends all other use."""
        return self.ascent.release_duals(self.blocks is None)

    def close(self):
        """Stop reading."""
        if self.blocks is not None:
            self.blocks.close()
            self.blocks = None

    def state(self):
        """Return what `set_state` needs to go on between two blocks, a flat dict."""
        state = saved(self, STATE) | self.ascent.state() | self.best.state()
        state |= {"certificate_accesses": self.objective.accesses} | self.crossing.state()
        return state | self.newton.state() if self.newton else state

    def set_state(self, state):
        """Go on from a `state()`."""
        restore(self, STATE, state)
        self.objective.accesses = take(state, "certificate_accesses", 0)
        self.ascent.set_state(state)
        self.best.set_state(state)
        self.crossing.set_state(state)
        if part_of(state, "newton"):
            self.newton = self._make_newton(np.inf)
            self.newton.set_state(state)
