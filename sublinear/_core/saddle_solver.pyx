"""What solvers of saddle point problems share: the problem, and the best dual value."""
from typing import NamedTuple

import numpy as np


class Point(NamedTuple):
    """An x and a p, and what they see of each other: the payoffs Y A x, and the gradient A'Y p."""

    x: np.ndarray
    payoffs: np.ndarray
    p: np.ndarray
    gradient: np.ndarray

    def copy(self):
        """Return a Point with arrays of its own."""
        return Point(*(array.copy() for array in self))


def as_is(x):
    """Return x: the `rounded` of models that are not stored."""
    return x


def gap_asked(epsilon, relative, primal):
    """Return the gap asked for, which is relative to the primal value if `relative`."""
    return epsilon * (max(primal, 0.0) if relative else 1.0)


def dual_beside(primal, dual, rounding):
    """Return the dual value, but the primal one if the dual one is larger by rounding alone."""
    return min(primal, dual) if dual <= primal + rounding else dual


cdef class SaddleSolver(Solver):
    """Base of solvers that certify after every round, by the best p so far.

    A subclass has `means()`, the means of x and p, or a `model()` of its own and a p to begin with.

    Parameters
    ----------
    problem : object
        Has `accesses`, what certificates read, `caps` and `ridge`, arrays or None, and what the
        subclass asks of it.

    Attributes
    ----------
    best_p : ndarray of shape (n_rows,), float64
        The p of the best dual value so far; None before there is one.
    best_dual : float
    """
    keeps_best = True
    gets_exact = False  # whether more rounds have less rounding

    def __init__(self, problem):
        self.problem, self.best_dual = problem, -np.inf

    @property
    def objective(self):
        """Where the driver finds what certificates read."""
        return self.problem

    def first_distribution(self, n_rows):
        """Return the p to begin with: with a ridge what would be optimal if it alone counted."""
        p = np.ones(n_rows)
        if self.problem.caps is not None:
            p[:] = self.problem.caps
        elif self.problem.ridge is not None:
            p[:] = np.square(self.problem.ridge.min() / self.problem.ridge)
        return p / p.sum()

    def model(self):
        """Return the mean of x."""
        return self.means()[0]

    def take_dual(self, double dual, p):
        """Keep a dual value, and p, if there is no better one."""
        if dual > self.best_dual or self.best_p is None:
            self.best_dual, self.best_p = dual, p

    def best_distribution(self):
        """Return the p of the best dual value, its mean if there is none."""
        return self.means()[1] if self.best_p is None else self.best_p
