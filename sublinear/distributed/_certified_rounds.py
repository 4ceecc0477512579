"""The fit of the estimators over partitions that end with a duality gap."""

import dataclasses
from contextlib import closing

import numpy as np

from sublinear._certified_model import NO_CHECKPOINT, Training
from sublinear._checkpoint import RoundsCheckpoint, open_checkpoint
from sublinear._core.constant_column import intercept_penalty
from sublinear._core.starting_intercept import middle_of_parts
from sublinear._core.states import part_of, prefixed, take
from sublinear._fit_method import fit_method
from sublinear._labels import (
    WEIGHTLESS,
    LabelWeights,
    class_factors,
    find_classes,
    positive_classes,
)
from sublinear._linear_model import LinearModel
from sublinear._validation import check_total_weight
from sublinear.distributed._cluster import connected
from sublinear.distributed._estimator import OverPartitions, documented
from sublinear.distributed._partitions import (
    Problem,
    ask_retrying,
    summary_of,
)


@dataclasses.dataclass
class Whole:
    """All rows together, as far as what follows must know them."""

    block_sizes: list  # rows of every block, by partition
    n_columns: int
    n_stored: int
    is_sparse: bool  # some of the blocks
    widest: int
    dtype: np.dtype
    constant: float
    total_weight: float
    class_factors: np.ndarray | None
    middle: float  # about the weighted median of numeric targets

    @property
    def sizes(self):
        """Rows of every partition."""
        return [sum(sizes) for sizes in self.block_sizes]

    @property
    def n_rows(self):
        """Of all partitions."""
        return sum(self.sizes)

    @property
    def n_weights(self):
        """Length of a weight vector."""
        return self.n_columns + (self.constant != 0)


class PartitionedTraining(Training):
    """The data of a fit, where partitions hold them: X, matrix and targets under other names."""

    @property
    def partitions(self):
        """Those that hold the rows, in place of X."""
        return self.X

    @property
    def whole(self):
        """The Whole, in place of a Matrix."""
        return self.matrix

    @property
    def labels(self):
        """The label of the positive class of every problem, in place of targets; [None]: numbers.

        Partitions make the targets.
        """
        return self.targets


def order_of_rows(groups, sizes):
    """Return the places of the rows in X, one partition after the other.

    Parameters
    ----------
    groups : list of lists of int
        The chunks of X in every partition. Without any the rows are in order.
    sizes : list of lists of int
        Rows of these chunks; none where all are empty.
    """
    chunks = [chunk for group in groups or () for chunk in group]
    if not chunks:
        return slice(None)
    n_rows = np.zeros(len(chunks), dtype=int)
    for group, rows in zip(groups, sizes, strict=True):
        n_rows[group] = rows or 0
    starts = np.cumsum(n_rows) - n_rows
    return np.concatenate([np.arange(starts[k], starts[k] + n_rows[k]) for k in chunks])


def in_order(training, values):
    """Return numbers of the rows, which come one partition after the other, in the order of X."""
    ordered = np.empty_like(values)
    ordered[order_of_rows(training.partitions.groups, training.whole.block_sizes)] = values
    return ordered


def by_partition(training, values):
    """Return numbers of the rows, which come in the order of X, as an array per partition."""
    whole = training.whole
    order = order_of_rows(training.partitions.groups, whole.block_sizes)
    return np.split(values[order], np.cumsum(whole.sizes)[:-1])


class CertifiedRounds(OverPartitions, LinearModel):
    """What the estimators with a duality gap share: the fit, a problem after the other.

    A subclass has, besides what OverPartitions names,

        _beginning(training)                what a warm start begins with, a flat dict; {} for none
        _make_rounds(training, problem, k)  the solver of problem k; training.plan is the beginning
        _next_start(solver)                 what a warm start needs of a solver, a flat dict
        _store_starts(starts, training)     keep these; none where there will be no warm start
    """

    _unit = "rounds"

    @fit_method
    @documented
    def fit(
        self, X, y=None, sample_weight=None, *, checkpoint=None, checkpoint_every=10, resume=True
    ):
        """Fit the model.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features), or list
            Chunks may be dense or CSR; each holds all columns of its rows. A list without y: one
            source per partition.
        y : dask array or array-like of shape (n_samples,), default=None
            Cut as X is.
        %(sample_weight)s
        checkpoint : str or path-like, default=None
            A file of this process for the state of the fit, that of the partitions with it;
            replaced every `checkpoint_every` rounds, when a callback stops the fit, and at the end.
            None: no file.
        checkpoint_every : int, default=10
            Rounds.
        resume : bool, default=True
            Go on from the checkpoint if the file is there. The result is that of a fit without a
            pause, bit for bit, on however many workers; the partitions must be the same. False:
            begin anew and replace the file.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For parameters or data that make no sense, a scheduler that cannot be reached, a
            checkpoint of another fit; the message says what to do.
        RuntimeError
            If workers die again and again, or with rows that cannot be computed again; if the
            connection to the scheduler is lost.
        OSError
            If the checkpoint cannot be written.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        checkpoint = open_checkpoint(checkpoint, checkpoint_every, resume, self)
        with (
            connected(self.client) as client,
            closing(self._partition(client, X, y, sample_weight)) as partitions,
        ):
            found = ask_retrying(partitions, "describe")
            self.stream_ = summary_of(ask_retrying(partitions, "summary"))
            self._note_columns(found)
            training = self._gather(partitions, found)
            training.plan = self._beginning(training)
            rounds = NO_CHECKPOINT
            if checkpoint is not None:
                checkpoint.identify_partitions(ask_retrying(partitions, "mark"))
                rounds = RoundsCheckpoint(checkpoint)
                training.plan = rounds.beginning(training.plan)
            return self._solve(training, self._limits(), rounds)

    def _gather(self, partitions, found):
        """Return the PartitionedTraining of described partitions."""
        block_sizes = [[] if part is None else part.sizes for part in found]
        found = [part for part in found if part is not None]
        total_weight = sum(description.weight for description in found)
        labels, factors = [None], None
        if not self._numeric:
            known = LabelWeights()
            for description in found:
                known.add_all(description.labels)
            labels, factors = self._labels(known)
            if factors is not None:
                masses = known.of(self.classes_)
                if not masses[factors > 0].any():
                    raise ValueError(WEIGHTLESS)
                with np.errstate(over="ignore"):  # a total of inf is refused
                    total_weight = float(masses @ factors)
        check_total_weight(total_weight, "the weights of all partitions")
        constant = self._column(partitions, sum(map(sum, block_sizes)), found[0].n_columns)
        whole = Whole(
            block_sizes=block_sizes,
            n_columns=found[0].n_columns,
            n_stored=sum(description.n_stored for description in found),
            is_sparse=any(description.is_sparse for description in found),
            widest=max(description.widest for description in found),
            dtype=np.result_type(*(description.dtype for description in found)),
            constant=constant,
            total_weight=total_weight,
            class_factors=factors,
            middle=middle_of_parts(
                [description.middle for description in found],
                [description.weight for description in found],
            ),
        )
        return PartitionedTraining(
            X=partitions, y=None, metadata=None, matrix=whole, targets=labels, weights=None
        )

    def _column(self, partitions, n_rows, n_columns):
        """Return the value of the constant column; for those whose value depends on the rows."""
        return self._constant()

    def _labels(self, known):
        """Return the label of the positive class of every problem, and the factors of classes."""
        self.classes_ = find_classes(known.labels)
        factors = class_factors(self.class_weight, self.classes_, known.of(self.classes_))
        return list(positive_classes(self.classes_)), factors

    def _solver(self, training, k, random, n_jobs):
        whole = training.whole
        problem = Problem(
            make_loss=self._losses[self.loss].maker(self),
            alpha=self.alpha,
            total_weight=whole.total_weight,
            constant=whole.constant,
            seed=random.bit_generator.seed_seq,
            intercept_penalty=intercept_penalty(whole.constant, self._scaling()),
            label=training.labels[k],
            classes=None if self._numeric else self.classes_,
            class_factors=whole.class_factors,
        )
        return self._make_rounds(training, problem, k)

    def _keep(self, solver):
        """Return what the estimator keeps of a solver, a flat dict."""
        start = prefixed("start", self._next_start(solver)) if self.warm_start else {}
        return {"n_lost": solver.n_lost} | start

    def _store(self, outcomes, training, seconds):
        kept = [outcome.kept for outcome in outcomes if outcome.kept is not None]
        self.n_lost_ = training.partitions.n_lost + sum(take(state, "n_lost", 0) for state in kept)
        starts = [start for state in kept if (start := part_of(state, "start"))]
        self._store_starts(starts if len(starts) == len(outcomes) else [], training)
        super()._store(outcomes, training, seconds)

    def _check_parameters(self):
        super()._check_parameters()
        self._check_cluster()

    def to_local(self):
        """Return the fitted estimator of `sublinear` with this model, which needs no cluster.

        It can be pickled and saved with `save_model`.

        Returns
        -------
        local : estimator
        """
        return self._local_copy()
