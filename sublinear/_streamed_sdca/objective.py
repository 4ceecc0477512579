"""What SDCA over a source maximises: the objectives of all problems, a block at a time."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sublinear._core.aligned import contiguous
from sublinear._core.constant_column import RowSample, length_of_mean, short_length
from sublinear._core.flat_intercept import (
    Suited,
    centred,
    suited,
    values_beside,
    weights_beside,
)
from sublinear._core.matrix import Matrix
from sublinear._core.objective import MOST_OF_ZEROS, is_out_of_balance, mass_at
from sublinear._core.row_blocks import joined_blocks
from sublinear._core.solver import BaseObjective
from sublinear._core.starting_intercept import (
    middle,
    middle_of_parts,
    spread_of,
    spread_of_parts,
)
from sublinear._labels import LabelWeights
from sublinear._stream import rest_of


@dataclass
class Extent:
    """What the counting pass finds.

    Attributes
    ----------
    n_rows, n_features, n_stored : int
    is_sparse : bool
        Whether some of the blocks are.
    weight : float
        The sum of the sample weights.
    labels : LabelWeights
        Of all blocks, where labels are wanted.
    dtype : numpy.dtype
    constant : float
        The value of the constant column.
    middle : float
        About the weighted median of all targets, where labels are not wanted.
    moments : ndarray
        Weights times squared lengths, the constant column included, of some of the rows.
    at_zeros : ndarray of shape (2,)
        What `values_at_zeros` of all targets are, where labels are not wanted.
    """

    n_blocks: int = 0
    n_rows: int = 0
    n_features: int = 0
    n_stored: int = 0
    is_sparse: bool = False
    weight: float = 0.0
    labels: LabelWeights = field(default_factory=LabelWeights)
    dtype: np.dtype | None = None
    constant: float = 0.0
    middle: float = 0.0
    moments: np.ndarray | None = None
    at_zeros: np.ndarray = field(default_factory=partial(np.zeros, 2))

    @property
    def n_weights(self):
        """The constant column's included."""
        return self.n_features + (self.constant != 0)


def values_at_zeros(loss, targets, weights):
    """Return the parts of P(0) and D(0) that are these examples', times the total weight."""
    zeros = np.zeros(len(targets))
    parts = loss.values(zeros, targets), -loss.conjugates(zeros, targets)
    with np.errstate(all="ignore"):  # of weights whose sum is refused
        return np.array([np.sum(weights * part) for part in parts])


def extent_of(stream, constant, loss, wants_labels, watch):
    """Return the Extent of a stream; calls watch(block) for every block of this pass.

    `constant` is the value of the constant column, or a function of what `column_constant` takes.
    """
    extent, middles, sample = Extent(), [], None
    for block in stream:
        with stream.naming_block():
            watch(block)
            n_rows, matrix = block.X.shape[0], Matrix(block.X)
        weights = np.ones(n_rows) if block.sample_weight is None else block.sample_weight
        extent.n_blocks += 1
        extent.n_rows += n_rows
        extent.n_stored += matrix.n_stored
        extent.is_sparse |= matrix.is_sparse
        sample = sample or RowSample(matrix.n_columns)
        sample.add(matrix, weights)
        extent.weight += float(weights.sum())
        if wants_labels:
            with stream.naming_block():
                extent.labels.add(block.y, weights)
        else:
            with stream.naming_block():
                targets = contiguous(block.y, np.float64)
            spread = spread_of(targets, weights) if callable(constant) else 0.0
            middles.append((middle(targets, weights), spread, weights.sum()))
            extent.at_zeros += values_at_zeros(loss, targets, weights)
    extent.n_features, extent.dtype = stream.n_features, stream.dtype
    if middles:
        middles, spreads, masses = zip(*middles, strict=True)
        extent.middle = middle_of_parts(middles, masses)
    extent.constant = constant
    weights, norms = np.concatenate(sample.weights), np.concatenate(sample.norms)
    if callable(constant):
        spread = partial(spread_of_parts, middles, spreads, masses) if middles else None
        mean = length_of_mean(sample.total, sample.squares)
        parts = {"spread": spread, "n_parts": extent.n_blocks}
        extent.constant = constant(extent.n_rows, short_length(norms, weights), mean, **parts)
    with np.errstate(all="ignore"):  # of rows that solvers refuse
        extent.moments = weights * (norms + extent.constant * extent.constant)
    return extent


class StreamedObjective(BaseObjective):
    """The objectives of all problems, a block at a time.

    Parameters
    ----------
    stream : iterable of blocks
        With attributes X, y and sample_weight.
    extent : Extent
        Of the stream.
    problems : list of callables
        Each makes an array of targets of a block's y.
    make : callable
        make(matrix, targets, weights) -> the Objective of a problem, as part of the whole.
    weigh : callable
        weigh(block) -> the weights of its rows, or None; ValueError for a block of other labels.
    zeros : ndarray of shape (2,)
        The sums of the problems' P(0) and D(0).
    alpha, total_weight, intercept_penalty : float
        As of Objective.
    """

    def __init__(
        self,
        stream,
        extent,
        problems,
        make,
        weigh,
        zeros,
        *,
        alpha,
        total_weight,
        intercept_penalty,
    ):
        self.stream, self.problems, self.make, self.weigh = stream, problems, make, weigh
        self.alpha, self.total_weight = alpha, total_weight
        self.intercept_penalty = intercept_penalty
        self.n_blocks, self.n_rows, self.constant = (
            extent.n_blocks,
            extent.n_rows,
            extent.constant,
        )
        self.accesses = 0
        self.zeros = zeros.tolist()

    @property
    def n_weights(self):
        """The constant column's included."""
        return self.stream.n_features + (self.constant != 0)

    def blocks(self, row=0, least_rows=1):
        """Yield (slice of the examples, Objectives of the problems) for the blocks from a row on.

        Those of fewer rows are joined with the ones after them.
        """
        rest = rest_of(self.stream, row)
        blocks = joined_blocks(map(self._described, rest), least_rows, row)
        for where, X, weights, *targets in blocks:
            with self.stream.naming_block():
                matrix = Matrix(X, constant=self.constant)
                objectives = [self.make(matrix, one, weights) for one in targets]
            yield where, objectives

    def _described(self, block):
        """Return the rows, the weights or None, and the targets of each problem."""
        with self.stream.naming_block():
            targets = [make_targets(block.y) for make_targets in self.problems]
            return block.X, self.weigh(block), *targets

    def mass(self, last):
        """As that of Objective."""
        strength = self.alpha * self.total_weight * self.intercept_penalty
        return mass_at(last, self.constant, strength)

    def is_out_of_balance(self, last, of_duals, most):
        """As that of Objective."""
        return is_out_of_balance(last, of_duals, self.alpha, self.intercept_penalty, most)

    def masses(self, duals):
        """Return the masses of each problem's positive and of its negative duals; one pass."""
        masses = np.zeros((len(self.problems), 2))
        for where, objectives in self.blocks():
            for k, objective in enumerate(objectives):
                masses[k] += objective.masses(duals[k, where])
        return masses

    def certificate(self, candidates, duals_of, ws=None, least_rows=1):
        """Return what is known of each problem's candidates and duals; one pass.

        Parameters
        ----------
        candidates : list of lists of one or two ndarrays of shape (n_weights,), float64
        duals_of : callable
            duals_of(k, where, part) -> feasible duals of problem k and of these rows, whose
            Objective is `part`.
        ws : list of ndarrays of shape (n_weights,), float64, default=None
            w of the duals, up to rounding. None: the pass adds them up; another one follows where
            a model is so much worse than zeros that the dual value would lose digits.
        least_rows : int, default=1
            Of a block.

        Returns
        -------
        primals : list of lists of float
        bounds : list of float
            Dual values.
        ws : list of ndarrays of shape (n_weights,), float64
        """
        sums, is_known = [0.0] * len(candidates), ws is not None
        ws = ws if is_known else np.zeros((len(candidates), self.n_weights))
        around = ws if is_known else [models[0] for models in candidates]
        for where, objectives in self.blocks(least_rows=least_rows):
            for k, objective in enumerate(objectives):
                own, total = duals_of(k, where, objective), None if is_known else ws[k]
                sums[k] += objective.sums(candidates[k], around[k], own, of_duals=total)
                self.accesses += objective.accesses
        # any block's objective has the total weight and alpha
        certificates = map(objective.certificate_of_sums, sums, around, candidates, ws)
        primals, bounds = zip(*certificates, strict=True)
        most = MOST_OF_ZEROS * self.zeros[0]
        if is_known or all(of_problem[0] <= most for of_problem in primals):
            return primals, bounds, ws
        return self.certificate(candidates, duals_of, ws, least_rows)

    def centred(self, flat, duals, rounded):
        """Return models in the middle of their best intercepts, and their values; one pass.

        Parameters
        ----------
        flat : dict
            Of some problems: {k: (balanced masses of ends, model, primal value, dual value)}.
        duals : ndarray of shape (n_problems, n_rows), float64
        rounded : callable
            Returns a model as it will be stored.

        Returns
        -------
        dict
            {k: (model, primal value, dual value)} for those that have a middle.
        """
        models = {k: weights_beside(masses, model) for k, (masses, model, *_) in flat.items()}
        sums, found = dict.fromkeys(flat, Suited()), {}
        for where, objectives in self.blocks():
            for k, model in models.items():
                sums[k] += suited(objectives[k], duals[k, where], model)
                self.accesses += objectives[k].accesses
        for k, (masses, _, *values) in flat.items():
            model, loss = centred(models[k], self.constant, sums[k], rounded)
            if model is not None:  # any block's objective has the total weight and alpha
                value = objectives[k].penalty(model) + loss / objectives[k].total_weight
                found[k] = model, *values_beside(masses, value, *values)
        return found

    def at_zeros(self):
        """Return zero weights, their primal value and the dual value of zero duals."""
        return stacked(np.zeros((len(self.problems), self.n_weights))), *self.zeros


def stacked(models):
    """Return models as one array: (n_problems, n_weights), or (n_weights,) for one."""
    return models[0].copy() if len(models) == 1 else np.stack(models)
