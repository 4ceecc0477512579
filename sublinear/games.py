"""Matrix games: solve_matrix_game."""

import math
from dataclasses import dataclass, field

import numpy as np

from sublinear._documentation import with_parameters
from sublinear._result import Result
from sublinear._saddle import (
    CERTIFY_EXACTLY,
    VARIANTS,
    WHOLE_PASSES,
    Plan,
    checked_data,
    random_of,
    run_saddle,
    saddle_parameters,
    settings_of,
    variant_of,
)
from sublinear._saddle_problems import Game
from sublinear._solvers.game_interior_point import GameFinisher, is_small
from sublinear._solvers.optimistic import OptimisticWeights
from sublinear._validation import as_matrix, check_number, has_matrix


@dataclass(frozen=True, repr=False)
class GameResult(Result):
    """What `solve_matrix_game` found: a Result with strategies.

    Attributes
    ----------
    row_strategy, column_strategy : ndarray, float64
        Not negative, of sum 1.

    Examples
    --------
    >>> from sublinear import solve_matrix_game
    >>> result = solve_matrix_game([[1, -1], [-1, 1]], epsilon=0.01, random_state=0)
    >>> result.row_strategy.round(1).tolist(), result.column_strategy.round(1).tolist()
    ([0.5, 0.5], [0.5, 0.5])
    """

    row_strategy: np.ndarray = field(default=None, repr=False)
    column_strategy: np.ndarray = field(default=None, repr=False)


@with_parameters(**saddle_parameters(CERTIFY_EXACTLY))
def solve_matrix_game(
    A,
    epsilon=0.05,
    *,
    variant="auto",
    batch_size="auto",
    certify="las_vegas",
    constants="practical",
    max_iter=None,
    max_accesses=None,
    largest=None,
    random_state=None,
):
    """Find nearly optimal mixed strategies of a matrix game.

    The column player chooses x to minimise, the row player p to maximise, p'Ax, both in the
    simplex.

    Parameters
    ----------
    A : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_rows, n_columns)
        What the column player pays. Dense or CSR, float32 or float64, is used as it is. Of a store
        or an oracle only what is drawn is asked for, given `largest` and certify=None.
    epsilon : float, default=0.05
        How far the strategies may be from optimal together, absolute.
    variant : {"auto", "plain", "variance_reduced", "optimistic", "interior_point"}, default="auto"
        "plain" and "variance_reduced" as in `MinimumEnclosingBall`. "optimistic": multiplicative
        weights in whole passes, in which each player predicts that the other one does what it did
        last; `max_iter` limits passes (None: 10000). "interior_point": for A in memory, in few
        iterations, each of them equations of as many unknowns as A has rows, or columns if these
        are fewer; `max_iter` limits iterations. Where that, or `max_accesses`, leaves fewer than
        are to be expected, passes of "optimistic" are made instead. "auto" with
        certify="las_vegas" and constants="practical": "optimistic", then "interior_point" if that
        is the shorter way to epsilon, within the limits, and A has at most 2000 rows or columns
        and 2**27 values; else "plain".
    %(steps)s
    largest : float, default=None
        The largest absolute entry of A, or a bound on it. None: it is found by a pass, for A in
        memory after the middle of its range is taken off all entries.
    %(draws)s

    Returns
    -------
    result : GameResult
        A `Result` with `row_strategy` (p) and `column_strategy` (x), both float64. `primal`,
        max_i (Ax)_i, bounds the value of the game from above, `dual`, min_j (A'p)_j, from below,
        and `gap` is what lies between them. With certify=None all three are unknown.

    Raises
    ------
    ValueError
        For parameters or data that make no sense; the message says what to do.

    Notes
    -----
    Section IV of Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning" (2010);
    the variance reduction of Carmon, Jin, Sidford, Tian (2019); by default the optimistic method of
    Rakhlin, Sridharan, "Optimization, learning, and games with predictable sequences" (2013), and
    the predictor and corrector of Mehrotra, "On the implementation of a primal-dual interior point
    method" (1992), on a copy of A in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear import solve_matrix_game
    >>> rock_paper_scissors = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    >>> result = solve_matrix_game(rock_paper_scissors, epsilon=0.01, random_state=0)
    >>> bool(result.primal - result.dual <= 0.01)
    True
    """
    settings = settings_of(locals(), (*VARIANTS, "optimistic", "interior_point"))
    variant = variant_of(settings, "optimistic")
    A = checked_data(A)
    if variant == "interior_point" and has_matrix(A):
        raise ValueError('variant="interior_point" needs A in memory')
    matrix = as_matrix(A)
    check_number("largest", largest, low=0, open_low=True, optional=True)
    problem = Game(largest, epsilon=epsilon) if largest else _measured(A, matrix, epsilon)
    problem.accesses = matrix.n_stored if largest is None else 0
    plan = Plan(settings, "simplex", matrix, epsilon, problem.unit, variant=variant)
    if variant in WHOLE_PASSES:
        solver = _in_passes(settings, plan.max_iter, problem, matrix, A)
    else:
        solver = plan.solver(problem, random_of(settings))
    name = "solve_matrix_game"
    x, result = run_saddle(name, settings, solver, plan, A, scales=[("largest", largest)])
    p = solver.best_distribution()
    return GameResult(**vars(result), row_strategy=p / p.sum(), column_strategy=x / x.sum())


def _in_passes(settings, max_iter, problem, matrix, A):
    """Return the solver that makes whole passes."""
    solver = OptimisticWeights(problem, matrix)
    at_once = settings.variant == "interior_point"
    may_finish = settings.variant == "auto" and not has_matrix(A) and is_small(A)
    if not (at_once or may_finish):
        return solver
    return GameFinisher(
        solver,
        A,
        settings.epsilon,
        max_iter=max_iter,
        max_accesses=settings.max_accesses or math.inf,
        at_once=at_once,
    )


def _measured(A, matrix, epsilon):
    """Return the problem; a constant added to all entries changes no step of it."""
    if has_matrix(A):
        largest = matrix.largest_entry()
        return Game(largest or 1.0, 0.0, epsilon, largest)
    if not getattr(A, "has_canonical_format", True):
        A = A.copy()  # SciPy would sort the caller's
    low, high = float(A.min()), float(A.max())
    unit = (high / 2 - low / 2) or abs(high) or 1.0
    return Game(unit, low / 2 + high / 2, epsilon, max(high, -low))
