"""Dual ascent by partitions that work at the same time: CoCoA+.

Paper: Ma, Smith, Jaggi, Jordan, Richtarik, Takac, "Adding vs. averaging in distributed primal-dual
optimization" (CoCoA+, 2015), Algorithm 1.

    each round, partition k:   c_k, conjugate_k = passes of SDCA around w
    here:                      w += gamma sum_k c_k,   duals follow

With w = w(a) of all duals, partition k improves its own by SDCA on

    - (1 / W) sum_i s_i l*(-a_i) - alpha <w, c> - sigma alpha / 2 |c|^2,

where c = sum_i s_i (a_i - its value before) x_i / (alpha W) is what it adds to w. That is SDCA with
alpha / sigma in place of alpha, on v = w + sigma c. One vector of the length of w travels to every
partition; one comes back, added up on its way.

combination="safe": gamma = 1, sigma = the number of partitions; the dual value cannot fall.
combination="adaptive", which goes beyond the paper: gamma <= 1 maximises

    D(gamma) - D(0) >= - gamma sum_k conjugate_k / W - alpha (gamma <w, c> + gamma^2 / 2 |c|^2),

which the convexity of the conjugates gives from what was sent anyway. So the dual value cannot fall
either, and sigma may be less: where the maximiser was below 1, the next sigma is larger by as much;
where it was well above, smaller by a fifth.

An intercept without penalty ties the duals: sum_i s_i a_i = 0. As in `_solvers.sdca`, w keeps a
penalised constant column, and after each round its weight moves into `offset`, the multiplier; a
part of it where the intercept has less penalty than the column. To partitions, rounds are around w
plus the offset. All of them move the constant's weight the same
way, unlike that of other columns: it is the sum of their parts divided by `overlap`, their number
by sigma, as if its column were smaller by the root of that. For a certificate partitions say how
far from balance their duals are, and shrink those of the sign that prevails among all of them.
Where all duals are at their bounds, and balanced, partitions tell which intercepts suit these, and
the model has the middle one.

Where rounds creep, a proximal Newton method takes their place (_newton_rounds). Its duals become
those of the partitions where a certificate shows them to be better: dual ascent would go on from
there.

Duals are on trial until the next request tells how far to go from the last ones to them. A
partition that is lost begins anew: the others tell their parts of w(a), the new one makes a pass of
its own from duals of zero, and the fit goes on.
"""

from typing import NamedTuple

import numpy as np

from sublinear._core.flat_intercept import (
    Suited,
    are_balanced,
    centred,
    suited,
    values_beside,
    weights_beside,
)
from sublinear._core.inner import inner
from sublinear._core.objective import BALANCED, MOST_OF_ZEROS, balance_masses, best_multiple
from sublinear._core.pace import relative_gap
from sublinear._core.random import RandomBits
from sublinear._core.starting_intercept import allowed, is_far_off
from sublinear._core.states import part_of, prefixed, refusal, restore, saved, take
from sublinear._newton_passes import Certified, Crossing, PassesDone
from sublinear._solvers.proximal_newton import ProximalNewton
from sublinear._solvers.sdca import SDCA
from sublinear.distributed._newton_rounds import NewtonPart, NewtonRounds
from sublinear.distributed._partitions import Partition, Rounds

COMBINATIONS = ("adaptive", "safe")
GROWTH = 2.0  # of the work between two certificates, at most
ROOM = 1.2  # the least maximiser after which sigma becomes smaller
SMALLER = 0.8  # by this factor: not often, since a change wakes up all sleeping examples
LARGER = 4.0  # by this factor at the most
SLICE = 1 << 24  # feature values between two looks at Ctrl-C
STATE = "w", "previous", "offset", "sigma", "gamma"


class Proposal(NamedTuple):
    """What a partition tells of new duals, but for what w would gain.

    conjugate is what sum_i s_i l*(-a_i) would gain; accesses, work, gap and loss are those of its
    solvers, the last two estimates.
    """

    conjugate: float
    accesses: int
    work: int
    gap: float
    loss: float


class DualPartition(Partition):
    """Rows with their duals."""

    def open(self, problem, n_weights):
        """Begin a problem with duals of zero."""
        super().open(problem, n_weights)
        self.sigmas = [1.0]  # all so far
        self.unsettled = None  # the round whose duals are on trial
        self.v = np.zeros(n_weights)
        seed = problem.seed
        self.solvers = []
        for k, objective in enumerate(self.objectives):
            own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, self.index, k))
            self.solvers.append(SDCA(objective, RandomBits(own), w=self.v))
        self.duals = [np.zeros(objective.matrix.n_rows) for objective in self.objectives]
        self.newton = self.found = None

    def begin(self, duals):
        """Set the duals of all rows to the nearest feasible ones."""
        self.duals = [own.copy() for own in self.by_block(duals)]
        for objective, solver, own in self._all():
            objective.make_feasible(own)
            solver.set_duals(own)

    def cost(self):
        """Return what `Objective.cost_of` the duals is, and this partition's part of P(0)."""
        parts = [
            (objective.cost_of(own), objective.values_of_zeros()[0])
            for objective, _, own in self._all()
        ]
        return np.sum([(0.0, 0.0), *parts], axis=0)

    def scale(self, factor):
        """Multiply all duals."""
        for _, solver, own in self._all():
            own *= factor
            solver.set_duals(own)

    def round(self, number, gamma, w, sigma, passes):
        """Settle the last round, make passes around w; return w's gain and a Proposal."""
        self._settle(number - 1, gamma)
        accesses, work, gap, loss = self._run(w, sigma, passes)
        self.unsettled = number
        conjugate = sum(
            objective.conjugate_sum(solver.duals()) - objective.conjugate_sum(duals)
            for objective, solver, duals in self._all()
        )
        return (self.v - w) / sigma, *Proposal(conjugate, accesses, work, gap, loss)

    def certify(self, number, gamma, w, models):
        """Settle the last round; return `sums`."""
        self._settle(number - 1, gamma)
        return self.sums(w, self._shown(), models)

    def masses(self, number, gamma):
        """Settle the last round; return the masses of duals, and the `masses_of_ends`."""
        self._settle(number - 1, gamma)
        return self._masses()

    def certify_balanced(self, total, masses, around, models):
        """Return what `_certificate` does of balanced copies of the duals, by the masses of all."""
        duals = [own.copy() for own in self._shown()]
        for own in duals:
            balance_masses(own, masses, total)
        return self._certificate(duals, around, models)

    def suited(self, model):
        """Return what intercepts suit the ends of duals beside a model's weights."""
        parts = zip(self.objectives, self._shown(), strict=True)
        return sum((suited(objective, own, model) for objective, own in parts), Suited())

    def _certificate(self, duals, around, models):
        """Return this part of w(a), and `sums` around any weights."""
        of_duals = np.zeros(self.n_weights)
        sums = self.sums(around, duals, models, of_duals)
        return self._at_last(of_duals), sums

    def restore(self, number, gamma):
        """Settle the last round, drop the present one; return this partition's part of w(a)."""
        self._drop(number, gamma)
        return (self._weights_of(self.duals),)

    def final_duals(self, number, gamma):
        """Settle the last round, drop the present one; return the duals of all rows."""
        self._drop(number, gamma)
        return self._all_duals()

    def catch_up(self, w):
        """Make a pass around w while the others wait; return what it adds to w, what it read."""
        accesses, work, _, _ = self._run(w, 1.0, 1)
        self.duals = [solver.duals() for solver in self.solvers]
        return self.v - w, accesses, work

    def newton_pass(self, number, gamma, pass_number, state):
        """Settle the last round of dual ascent; return the sums of `NewtonPart.visit`."""
        self._settle(number - 1, gamma)
        return (self._newton_part().visit(pass_number, state, self._joined()),)

    def newton_masses(self, state):
        """Find the duals of a proximal Newton method, for a certificate; return as `masses`."""
        self.found = self.by_block(self._newton_part().duals(state, self._joined()))
        return self._masses()

    def certify_newton(self, state, around, models):
        """Find the duals of a proximal Newton method; return what `_certificate` does of them."""
        self.newton_masses(state)
        return self._certificate(self.found, around, models)

    def settle_newton_duals(self, are_better):
        """Keep what was found, or forget it."""
        if are_better and self.found is not None:
            self.duals = self.found
            for _, solver, own in self._all():
                solver.set_duals(own)
        self.found = None

    def _masses(self):
        parts = zip(self.objectives, self._shown(), strict=True)
        of_ends = sum((np.array(one.masses_of_ends(own)) for one, own in parts), np.zeros(2))
        return np.concatenate([self.masses_of(self._shown()), of_ends])

    def _shown(self):
        return self.duals if self.found is None else self.found

    def _newton_part(self):
        if self.newton is None:
            self.newton = NewtonPart(self.problem, self.n_weights, self._all_duals())
        return self.newton

    def _joined(self):
        return self.joined_objectives(ProximalNewton.least_rows)

    def _all_duals(self):
        return np.concatenate([np.empty(0), *self.duals])

    def state(self, number, gamma):
        """Settle the last round; return what `set_state` needs."""
        self._settle(number - 1, gamma)
        state = {"sigmas": np.array(self.sigmas)}
        for k, solver in enumerate(self.solvers):
            state |= prefixed(k, solver.state())
        return state | prefixed("newton", self.newton.state()) if self.newton else state

    def set_state(self, state):
        """Go on from a `state()`."""
        self.open(self.problem, self.n_weights)
        sigmas = take(state, "sigmas", np.ones(0), any_length=True)
        if not np.all(sigmas >= 1):
            raise refusal(state, "sigmas", f"are not all 1 or more: {sigmas}")
        for sigma in sigmas[1:].tolist():
            self._change_sigma(sigma)  # one after the other: the same roundings
        for k, solver in enumerate(self.solvers):
            solver.set_state(part_of(state, k))
            self.duals[k] = solver.duals()
        if newton := part_of(state, "newton"):
            self._newton_part().set_state(newton)

    def _drop(self, number, gamma):
        """Settle the last round, drop the present one."""
        self._settle(number - 1, gamma)
        self._settle(number, 0.0)

    def _weights_of(self, duals):
        return self._at_last(self.weights_of(duals))

    def _at_last(self, w):
        """Return what w of the objectives' present alpha, divided by sigma, is for alpha."""
        return w / self.sigmas[-1]

    def _all(self):
        return zip(self.objectives, self.solvers, self.duals, strict=True)

    def _change_sigma(self, sigma):
        for solver in self.solvers:
            solver.restart(self.problem.alpha / sigma)
        self.sigmas.append(sigma)

    def _run(self, w, sigma, passes):
        """Make passes of SDCA with alpha / sigma; return accesses, work, estimates."""
        if sigma != self.sigmas[-1]:
            self._change_sigma(sigma)
        self.v[:] = w
        accesses = -sum(solver.accesses for solver in self.solvers)
        work = -sum(solver.work for solver in self.solvers)
        for _ in range(passes):
            for solver in self.solvers:
                while not solver.advance(solver.accesses + SLICE + self.v.size):
                    pass
        return (
            accesses + sum(solver.accesses for solver in self.solvers),
            work + sum(solver.work for solver in self.solvers),
            sum(solver.pass_gap for solver in self.solvers),
            sum(solver.pass_loss for solver in self.solvers),
        )

    def _settle(self, number, gamma):
        """If the duals of that round are on trial, go so far towards them."""
        if self.unsettled != number:
            return
        self.unsettled = None
        for k, (objective, solver, duals) in enumerate(self._all()):
            new = solver.duals()
            if gamma < 1:
                new = duals + gamma * (new - duals)
                objective.make_feasible(new)
                solver.set_duals(new)
            self.duals[k] = new


class BlockDualAscent(Rounds):
    """CoCoA+ as a solver for `_drive`.

    Parameters
    ----------
    partitions, problem, n_weights, n_stored
        As in Rounds.
    combination : {"adaptive", "safe"}
    passes : int
        Of every partition in a round.
    start : tuple, default=(None, 0.0, 0.0)
        The duals of every partition to begin with, None for zeros; the constant's weight, where it
        has a multiplier; another one, should that be far off.
    plan : NewtonPlan, default=None
        None: there are only rounds of dual ascent.
    """

    keeps_best = True

    def __init__(
        self,
        partitions,
        problem,
        *,
        n_weights,
        n_stored,
        combination,
        passes,
        start=(None, 0.0, 0.0),
        plan=None,
    ):
        self.adaptive, self.passes, self.start = combination == "adaptive", passes, start
        self.crossing, self.newton = Crossing(plan), None  # NewtonRounds, while these are at work
        self.best = Certified(1, n_weights)
        self.w, self.offset = np.zeros(n_weights), 0.0
        self.previous = self.w  # the model of the round before
        self.sigma, self.gamma = float(len(partitions)), 1.0
        super().__init__(partitions, problem, n_weights=n_weights, n_stored=n_stored)
        self.start = None

    def advance(self, limit):
        """Make a round and return True, or do nothing if it might exceed the limit."""
        before = self.newton
        self.newton = self.crossing.turn(
            self._done, self.best, self.objective, before, self._make_newton
        )
        if before and not self.newton:
            self._resume_ascent()
        return self._newton_round(limit) if self.newton else self._ascent_round(limit)

    def _ascent_round(self, limit):
        if self.accesses + self.passes * self.n_stored > limit:
            return False
        change, rests = self.retrying(self._round)
        change = self._as_weights(change)
        self.n_iter += 1
        proposals = [Proposal(*rest) for rest in rests]
        square, sigma = self._inner(change, change), self.sigma
        if self.adaptive and square > 0:
            self._adapt(change, square, sum(proposal.conjugate for proposal in proposals))
        self.previous = self.model()
        self.w = self.w + self.gamma * change
        if self.problem.has_multiplier:
            share = 1 - self.problem.intercept_penalty / self.overlap
            self.offset = share * (self.offset + self.w[-1])
            self.w[-1] *= self.sigma / sigma  # by the new overlap
        self.accesses += sum(proposal.accesses for proposal in proposals)
        self.work += sum(proposal.work for proposal in proposals)
        gap = sum(proposal.gap for proposal in proposals)
        primal = sum(proposal.loss for proposal in proposals) + self._penalty(self.w)
        self.estimated_gap = relative_gap(primal, gap)
        self.crossing.look(self._done, gap, primal, self.best, self.objective)
        return True

    @property
    def _done(self):
        return PassesDone(self.n_iter, self.work, self.accesses)

    def _newton_round(self, limit):
        n_read = ProximalNewton.n_passes * self.n_stored
        if self.accesses + n_read > limit:
            return False
        self.newton.make(
            lambda *asked: self.retrying(
                lambda: self.partitions.total("newton_pass", *self._last_round(), *asked)
            )[0]
        )
        self.n_iter += 1
        self.accesses += n_read
        self.work += self.newton.cost
        self.estimated_gap = self.newton.relative_gap
        return True

    @property
    def certificate_growth(self):
        """That of the method at work; 1 where Newton's seems worth its work."""
        if self.crossing.is_near:
            return 1.0
        return self.newton.certificate_growth if self.newton else GROWTH

    def _make_newton(self, at_zeros):
        return NewtonRounds(self.crossing.plan, self.best, at_zeros)

    def _resume_ascent(self):
        """Let rounds of dual ascent go on from the duals that are kept, and from the best model."""
        self.w = self.retrying(self._restored)
        self.objective.accesses += self.n_stored
        self.offset = self.best.models[0, -1] - self.w[-1]
        self.previous = self.model()

    @property
    def begun_newton(self):
        """NewtonRounds that have made a pass, else None: the budget may have no room for one."""
        return self.newton if self.newton and self.newton.n_passes else None

    def _round(self):
        return self.partitions.total(
            "round", self.n_iter + 1, self.gamma, self.model(), self.sigma, self.passes
        )

    def _adapt(self, change, square, conjugate):
        """Choose gamma for this round and sigma for the next one."""
        alpha = self.problem.alpha
        slope = -conjugate / self.problem.total_weight - alpha * self._inner(self.model(), change)
        best = slope / (alpha * square)
        self.gamma = min(1.0, max(0.0, best))
        if best < 1:
            self.sigma *= min(LARGER, 1 / max(best, 1 / LARGER))
        elif best > ROOM:
            self.sigma *= SMALLER
        self.sigma = min(max(self.sigma, 1.0), float(len(self.partitions)))

    @property
    def overlap(self):
        """What the sum of the partitions' parts of the constant's weight is divided by."""
        return len(self.partitions) / self.sigma if self.problem.has_multiplier else 1.0

    def _as_weights(self, total):
        """Return weights from the sum of the partitions' parts."""
        return np.append(total[:-1], total[-1] / self.overlap)

    def _inner(self, u, v):
        """Return the inner product of weights, to which that of the duals is proportional."""
        return inner(u, v) + (self.overlap - 1) * u[-1] * v[-1]

    def model(self):
        """Return the weights."""
        return self.begun_newton.method.w if self.begun_newton else self._around(self.w)

    def _around(self, w):
        """Return w with the offset."""
        if not self.problem.has_multiplier:
            return w
        return np.append(w[:-1], w[-1] + self.offset)

    def certify(self, rounded):
        """Return the better of the model and its mean with the one before (`_drive`).

        Partitions that move the same way make the model swing from round to round; a proximal
        Newton method has one model.
        """
        models = [rounded(self.model())]
        if not self.begun_newton:
            models.append(rounded((self.model() + self.previous) / 2))
        model, primal, dual = self.retrying(lambda: self._certified(models, rounded))
        is_better = self.best.note(0, [model], [primal], dual)
        if self.begun_newton:
            self.newton.n_certified = self.newton.n_passes
            self.retrying(lambda: self.partitions.ask("settle_newton_duals", is_better))
        return model, primal, dual

    def _certified(self, models, rounded):
        """Return the best of the models, its primal value and the dual value."""
        partitions, problem = self.partitions, self.problem
        state = self.newton.method.state() if self.begun_newton else None
        if state is None and not problem.has_multiplier:
            sums = partitions.ask("certify", *self._last_round(), self.w, models)
            return self._certificate(sums, self.w, models)
        most = MOST_OF_ZEROS * self.objective.at_zeros()[1]
        if state is not None:
            self.objective.accesses += self.n_stored  # for its duals
        if self._balances:
            asked = ("masses", *self._last_round()) if state is None else ("newton_masses", state)
            masses = np.sum(partitions.ask(*asked), axis=0)
            total = problem.mass(models[0][-1])
            request = "certify_balanced", total, tuple(masses[:2].tolist())
        else:
            request = "certify_newton", state
        w, rests = partitions.total(*request, models[0], models)
        around, (loss, *_) = models[0], sum(sums for (sums,) in rests)
        primal = self._penalty(around) + float(loss) / problem.total_weight
        if not primal <= most:
            self.objective.accesses += self.n_stored
            around = np.append(w[:-1], 0.0) if problem.free_intercept else problem.penalized(w)
            w, rests = partitions.total(*request, around, models)
        found = self._certificate([sums for (sums,) in rests], around, models, w)
        if problem.free_intercept and are_balanced(masses[2:]):
            return self._centred(masses[2:], *found, rounded)
        return found

    def _centred(self, masses, model, primal, dual, rounded):
        """Return what was found, with the middle of the best intercepts if there are several."""
        self.objective.accesses += self.n_stored
        beside = weights_beside(masses, model)
        found = sum(self.partitions.ask("suited", beside), Suited())
        middle, loss = centred(beside, self.problem.constant, found, rounded)
        if middle is None:
            return model, primal, dual
        value = self._penalty(middle) + loss / self.problem.total_weight
        return middle, *values_beside(masses, value, primal, dual)

    def duals(self):
        """Return the duals of all rows that certificates take, one partition after the other."""
        return self.retrying(self._final_duals)

    def _final_duals(self):
        duals = np.concatenate(self.partitions.ask("final_duals", *self._last_round()))
        if self._balances:
            masses = sum(self.partitions.ask("masses", *self._last_round()))[:2]
            balance_masses(duals, masses, self.problem.mass(self.model()[-1]))
        return duals

    @property
    def _balances(self):
        """Whether certificates balance duals: not those that Newton's method makes nearly right."""
        return self.problem.intercept_penalty < (BALANCED if self.begun_newton else 1)

    def _last_round(self):
        """What lets partitions settle it: the number of the next one, gamma."""
        return self.n_iter + 1, self.gamma

    def state(self):
        """As Rounds.state, with the duals of all partitions."""
        state = super().state() | saved(self, STATE) | self.best.state()
        state |= self.crossing.state()
        return state | self.newton.state() if self.newton else state

    def set_state(self, state):
        """As Rounds.set_state."""
        super().set_state(state)
        self.previous = self.w.copy()  # which it may have been itself
        restore(self, STATE, state)
        self.best.set_state(state)
        self.crossing.set_state(state)
        if part_of(state, "newton"):
            self.newton = self._make_newton(np.inf)
            self.newton.set_state(state)

    def _begin(self):
        self._open(None)
        self.w, self.offset = np.zeros_like(self.w), 0.0
        duals, *weights = self.start
        constant_weight, other = map(self._allowed, weights)
        if duals is not None:
            for k, part in enumerate(duals):
                self.partitions.ask("begin", part, only={k})
            self.w = self._restored()
            self.objective.accesses += self.n_stored
            is_bad = self._shrink(constant_weight - self.w[-1]) == 0
            if self.problem.has_multiplier and not is_bad:
                is_bad = is_far_off(*(self._loss_with(one) for one in (constant_weight, other)))
            if is_bad:
                constant_weight = other
        self.offset = constant_weight - self.w[-1]

    def _allowed(self, constant_weight):
        """Return the nearest weight of the constant column that the penalty allows."""
        problem = self.problem
        if not problem.has_multiplier or constant_weight == 0:
            return constant_weight
        constant, penalty = problem.constant, problem.alpha * problem.intercept_penalty
        loss, at_zeros = problem.make_loss(), self.objective.at_zeros()[1]
        return allowed(constant_weight * constant, loss, penalty, constant, at_zeros) / constant

    def _shrink(self, offset):
        """Multiply duals that come from elsewhere as `best_multiple` says; return the factor."""
        cost, at_zeros = sum(self.partitions.ask("cost"))
        gain = -cost / self.problem.total_weight
        if self.problem.has_multiplier:
            gain -= self.problem.alpha * self.overlap * offset * self.w[-1]
        square = self.problem.alpha * self._inner(self.w, self.w)
        factor = best_multiple(square, gain, at_zeros)
        if factor != 1:
            self.partitions.ask("scale", factor)
            self.w *= factor
        return factor

    def _loss_with(self, constant_weight):
        """Return the objective of the weights with another one for the constant."""
        model = np.append(self.w[:-1], constant_weight)
        self.objective.accesses += self.n_stored
        loss = sum(self.partitions.ask("loss_sum", model)) / self.problem.total_weight
        return self._penalty(model) + loss

    def _restored(self):
        """Return w(a) of the duals that partitions have."""
        w, _ = self.partitions.total("restore", *self._last_round())
        return self._as_weights(w)

    def _open(self, only):
        return self.partitions.ask("open", self.problem, self.w.size, only=only)

    def _recover(self, lost):
        """Begin the lost ones anew; w becomes that of the duals that are left, and their pass.

        A proximal Newton method goes on without: with its next certificate they have duals again.
        """
        self._open(lost)
        if self.begun_newton:
            return
        w = self._restored()
        for k in sorted(lost):
            ((change, accesses, work),) = self.partitions.ask("catch_up", self._around(w), only={k})
            w = w + self._as_weights(change)
            self.accesses += accesses
            self.work += work
        self.objective.accesses += self.n_stored
        self.w = w
