"""What the outer loop asks of solvers, and of their objectives."""
import numpy as np

NOT_QUIET = 0.0, np.inf, 0    # see Solver.be_quiet_until


cdef class Solver:
    """Base of solvers that `_drive` runs: each holds its state and goes on in slices.

    A subclass has the attributes without a value here, `advance`, `certify` and `model`.

    Attributes
    ----------
    objective : BaseObjective
    n_iter : int
        What `max_iter` limits: epochs, rounds or steps that were completed.
    accesses : int
        Feature values read.
    work : float
        The same, and what else takes time: examples looked at.
    progress : float, default=n_iter
        What is shown of a fit that goes on.
    full_accesses : int or None, default=None
        Accesses with every line charged in full, where they are counted.
    diverged : bool, default=False
        Whether there is no hope.
    estimated_gap : float, default=inf
        A relative gap that nothing proves.
    certificate_growth : float, default=1.0
        By what factor `work` may grow between two certificates at the most. 1: a certificate at the
        end of every round.
    keeps_best : bool, default=False
        Whether the model with the least primal value is wanted, not the last one.
    most_unresolved : int, default=32
        Certificates above tol, with a gap that is mostly rounding, after which to end.
    first_slice : int, default=1
        Accesses before the clock tells how many there may be at a time: any may take long.
    look : callable or None, default=None
        look() returns an estimate of the relative gap that is worth more than `estimated_gap` and
        costs more, though far less than `certify`.
    """
    full_accesses = None
    diverged = False
    estimated_gap = np.inf
    certificate_growth = 1.0
    keeps_best = False
    most_unresolved = 32
    first_slice = 1
    look = None

    @property
    def progress(self):
        """What is shown of a fit that goes on."""
        return self.n_iter

    def advance(self, limit):
        """Go on until a certificate makes sense, the end of an epoch or a round; return True.

        Return False where `accesses` would exceed `limit` before.
        """
        raise NotImplementedError("a subclass knows how it goes on")

    def be_quiet_until(self, double work, double gap, double n_iter):
        """Let `advance` go on through the ends of epochs, if it can.

        Before so much `work`, such an `estimated_gap` or so many epochs there is nothing to decide.
        """
        self.quiet_work, self.quiet_gap = work, gap
        self.quiet_iter = <Py_ssize_t> min(n_iter, 2.0**62)

    def certify(self, rounded):
        """Return the model it would return now, its primal value and a dual value.

        The model is an array that will not change again, and rounded(w) is w in the type in which
        it will be stored. A dual value that rounding has brought above the primal one, or to inf or
        NaN, may be returned as it is: it is not used.
        """
        raise NotImplementedError("a subclass knows its certificate")

    def model(self):
        """Return what `certify` would, or near it, at no cost."""
        raise NotImplementedError("a subclass knows its model")

    def settle(self):
        """Hear that the last certificate was near enough: a fit that goes on may begin there."""

    def refine(self):
        """Go on with less rounding, or return False; called before rounding ends a fit."""
        return False


cdef class BaseObjective:
    """Base of what judges the models of a `Solver`.

    A subclass has `accesses`, the feature values that certificates read.

    Attributes
    ----------
    rounding : float, default=0.0
        What rounding adds to the gap of the last certificate.
    model_error : float, default=0.0
        What of it belongs to the model.
    is_exact : bool, default=True
        Whether rounding is as little as it can be: models from before are given up then.
    attained : float, default=inf
        A primal value known beforehand, of a model that is not wanted: where it is near enough to
        the dual value a fit has converged as well.
    """
    rounding = 0.0
    model_error = 0.0
    is_exact = True
    attained = np.inf

    def at_zeros(self):
        """Return zero weights, their primal value and a dual value, if that is known."""
        return None, np.inf, -np.inf
