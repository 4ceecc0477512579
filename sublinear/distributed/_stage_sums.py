"""Streaming SVRG over partitions: they sum the gradients of a stage, this process ends it.

The stages are those of CombinedSVRG in `_solvers.streaming_svrg`. Every partition takes an equal
share of a stage from its source, until that ends. Gradients and squares of features are added up
on their way, as a tree; a few rows of every stage, the first and the heaviest, are sent along and
kept here.

    each round, partition k:   the sum over its share of the stage of the gradients at w~
    here:                      w~ <- the minimiser over the kept rows, corrected by the sum

A partition that is lost is made again and passes over the rows that it had taken: the round is
repeated, nothing else is lost.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sublinear._checkpoint import fingerprint
from sublinear._core.aligned import contiguous
from sublinear._core.anchored_gradient import AnchoredGradient
from sublinear._core.kept_rows import Sample
from sublinear._core.row_blocks import HeavyRows, RowBlock, is_of_counts, part_of_sample
from sublinear._core.states import refusal, restore, take
from sublinear._labels import (
    LabelWeights,
    check_known_labels,
    class_targets,
    count_targets,
    weights_by_class,
)
from sublinear._stream import Block, Stream, naming
from sublinear._validation import drop_weightless
from sublinear.distributed._partitions import Member, blocks_of, retrying
from sublinear.sources._faults import EmptySource


@dataclass(frozen=True)
class Plan:
    """What partitions must know of the problems.

    Attributes
    ----------
    make_loss : callable
        make_loss() -> Loss
    constant : float
        The value of the constant feature; 0 for none.
    classes : ndarray or None
        All labels; None: y holds the targets.
    factors : ndarray or None
        On the weights of the examples of every class; None: 1.
    counts : bool
        Whether targets must not be negative.
    marked : bool
        Whether there is a checkpoint, for which the rows that are read are hashed.
    """

    make_loss: Callable
    constant: float
    classes: np.ndarray | None = None
    factors: np.ndarray | None = None
    counts: bool = False
    marked: bool = False


class Start(NamedTuple):
    """What is known of a partition from its first block."""

    n_columns: int
    names: list | None  # of columns


class Share(NamedTuple):
    """What a partition tells of its share, but for the sums: counts, kept rows, is it at its end.

    dtype holds the values of all blocks so far; kept is a list of (rows, targets of every problem,
    weights); heavy are the HeavyRows of every problem, of the rows that are not kept.
    """

    n_rows: int
    accesses: int
    total_weight: float
    dtype: np.dtype
    kept: list
    heavy: list
    ended: bool


class StagePartition(Member):
    """A source that is read once, a share of a stage at a time.

    Parameters
    ----------
    index : int
    source : iterable of (X, y) or (X, y, sample_weight), or a function that returns one
    numeric : bool
        Whether y holds numbers to be predicted, not labels.
    """

    def __init__(self, index, source, numeric):
        self.index, self.source, self.numeric = index, source, numeric
        self.number, self.begun, self.seen, self.plan = 0, False, "", None
        self._rewind()

    def _rewind(self):
        name = f"partition {self.index}"
        with naming(name):
            source = blocks_of(self.source)
        self.stream = Stream(source, y_numeric=self.numeric, read_ahead=0, name=name)
        self.blocks = iter(self.stream)
        self.position = 0  # in the present block
        self.block = self._next()

    def _next(self):
        """Return the next Block that has rows with weight, None at the end."""
        with contextlib.suppress(EmptySource):
            for block in self.blocks:
                self.given = block  # labels of rows without weight, too
                weighed = self._weighed(block)
                if weighed.y.size:
                    return weighed
        return None

    def _weighed(self, block):
        """Return a Block with the factors of its classes, without the rows of weight 0."""
        X, y, weights = block
        if self.plan is not None and self.plan.factors is not None:  # not before `open`
            with self.stream.naming_block():
                check_known_labels(y, self.plan.classes)
            weights = weights_by_class(y, weights, self.plan.classes, self.plan.factors)
        return Block(*drop_weightless(X, y, weights))

    def start(self):
        """Return the Start, None without rows."""
        if self.block is None:
            return None
        return Start(self.stream.n_features, self.stream.feature_names)

    def first_mark(self):
        """Return a hash of the first block, None without rows."""
        return self.block and fingerprint(self.block)

    def mark(self):
        """Return a hash of the blocks read so far, that of the next row among them."""
        return self.seen

    def summary(self):
        """Return how many blocks and rows were read so far, and how many lines left out."""
        return self.stream.blocks, self.stream.rows, self.stream.skipped

    def labels(self):
        """Return the LabelWeights, in a pass of its own; None without rows."""
        if isinstance(self.source, Iterator):
            raise ValueError(
                "a generator can be read only once: give fit the classes, all labels to come, or a "
                "function that returns the generator"
            )
        if self.block is None:
            return None
        labels = LabelWeights()
        for block in itertools.chain([self.given], self.blocks):
            labels.add(block.y, block.sample_weight)
        self._rewind()
        return labels

    def open(self, plan, taken):
        """Begin a fit, behind the rows that a partition in this one's place had taken."""
        self.plan = plan
        self.loss = plan.make_loss()
        self.answer = None
        if self.begun:
            self._rewind()
        elif self.block is not None:  # it came before the plan
            self.block = self._weighed(self.given)
            if not self.block.y.size:
                self.block = self._next()
        self.seen = ""
        self._see()
        rows = taken[self.index]
        while rows > 0 and self.block is not None:
            step = min(rows, self.block.X.shape[0] - self.position)
            self._go_on(step)
            rows -= step
        if rows > 0:
            raise ValueError("a source has become shorter: it must yield the same rows again")
        self.rows = None

    def _go_on(self, step):
        self.position += step
        self.begun = True
        if self.position == self.block.X.shape[0]:
            self.position, self.block, self.rows = 0, self._next(), None
            self._see()

    def _see(self):
        if self.plan.marked and self.block is not None:
            self.seen = fingerprint(self.block, self.seen)

    def round(self, number, anchors, heaviest, shares, kept):
        """Return the sums over the share of round `number` at the anchors, and the Share."""
        if number != self.number:
            self.number = number
            self.answer = self._sum(anchors, heaviest, shares[self.index], kept[self.index])
        return self.answer

    def _sum(self, anchors, heaviest, share, keep):
        gradients = [AnchoredGradient(self.loss, anchor) for anchor in anchors]
        samples, heavy = [], [HeavyRows(is_of_counts(self.loss), *these) for these in heaviest]
        while share > 0 and self.block is not None:
            problems = self._problems()
            start = self.position
            stop = start + min(share, problems[0].n_rows - start, keep or share)
            if keep > 0:
                samples.append(kept_rows(problems, start, stop))
                keep -= stop - start
            else:
                for rows, found in zip(problems, heavy, strict=True):
                    found.take(rows, start, stop)
            for gradient, rows in zip(gradients, problems, strict=True):
                gradient.add(rows, start, stop)
            share -= stop - start
            self._go_on(stop - start)
        vector = np.concatenate([gradient.flat for gradient in gradients])
        first = gradients[0]
        return vector, *Share(
            n_rows=first.n_rows,
            accesses=first.accesses,
            total_weight=first.total_weight,
            dtype=self.stream.dtype,
            kept=samples,
            heavy=heavy,
            ended=self.block is None,
        )

    def _problems(self):
        """Return the present block as every problem has it."""
        if self.rows is None:
            X, y, weights = self.block
            with self.stream.naming_block():
                targets = self._targets(y)
            self.rows = RowBlock(X, targets[0], weights, self.plan.constant).with_all(targets)
        return self.rows

    def _targets(self, y):
        if self.plan.classes is not None:
            return class_targets(y, self.plan.classes)
        return [count_targets(y) if self.plan.counts else contiguous(y, dtype=np.float64)]


def even_shares(count, takers, n_partitions):
    """Share out rows to those partitions as evenly as can be; return the share of each."""
    shares = [0] * n_partitions
    for place, k in enumerate(sorted(takers)):
        shares[k] = (place + 1) * count // len(takers) - place * count // len(takers)
    return shares


def kept_rows(problems, start, stop):
    """Return rows of a block, their targets of every problem, and their weights."""
    parts = [rows.kept(start, stop) for rows in problems]
    return parts[0].rows, [part.targets for part in parts], parts[0].weights


def split_kept(kept, n_rows, k):
    """Return Samples of the first so many rows of a Share's, with the targets of problem k.

    And Samples of the other ones.
    """
    first, others = [], []
    for rows, targets, weights in kept:
        n, sample = min(n_rows, len(weights)), Sample(rows, targets[k], weights)
        if n > 0:
            first.append(part_of_sample(sample, slice(n)))
        if n < len(weights):
            others.append(part_of_sample(sample, slice(n, None)))
        n_rows -= n
    return first, others


class Stages:
    """One pass over all partitions.

    Parameters
    ----------
    partitions : LocalPartitions or the like
        Of StagePartitions.
    plan : Plan
    solvers : list of CombinedSVRG
        One for each problem.

    Attributes
    ----------
    n_rounds, n_lost : int
    taken : list of int
        Rows that every partition has taken.
    dtype : numpy.dtype
        That holds the values of these rows.
    """

    def __init__(self, partitions, plan, solvers):
        self.partitions, self.plan, self.solvers = partitions, plan, solvers
        self.n_rounds = self.n_lost = 0
        self.taken = [0] * len(partitions)
        self.ended, self.dtype = set(), np.dtype(np.float32)

    def state(self):
        """Return what `set_state` needs, but for the solvers, and the marks; a flat dict."""
        return {
            "marks": np.array(self.ask("mark")),
            "n_rounds": self.n_rounds,
            "n_lost": self.n_lost,
            "taken": np.array(self.taken),
            "ended": np.array(sorted(self.ended), dtype=np.int64),
        }

    def set_state(self, state):
        """Go on from a `state()`."""
        restore(self, ("n_rounds", "n_lost"), state)
        self.taken = take(state, "taken", np.array(self.taken)).tolist()
        ended = take(state, "ended", np.empty(0, dtype=np.int64), any_length=True)
        if not np.all(ended < len(self.partitions)):
            raise refusal(
                state, "ended", f"holds what is none of {len(self.partitions)} partitions"
            )
        self.ended = set(ended.tolist())

    def open(self):
        """Let partitions begin, behind the rows that they had taken."""
        self._retrying(lambda: self._open(None))

    def run(self, after):
        """Take all rows; calls after() when a round is over."""
        while len(self.ended) < len(self.partitions):
            self._round()
            after()

    def ask(self, method):
        """Return what partitions answer; lost ones have read again what they had taken."""
        return self._retrying(lambda: self.partitions.ask(method))

    def _retrying(self, request):
        return retrying(self.partitions, request, self._open, self)

    def _open(self, only):
        return self.partitions.ask("open", self.plan, self.taken, only=only)

    def _round(self):
        # the stages of problems whose kept rows tell more or less end at different places
        wants = [solver.rows_wanted for solver in self.solvers]
        wanted = min(rows for rows, _ in wants)
        keeps = [min(keep, wanted) for _, keep in wants]
        sums, told = self._ask_for(wanted, max(keeps))
        for problem, keep in enumerate(keeps):
            self._hand_over(problem, sums[problem], told, keep)
        self._note(told)

    def _ask_for(self, n_rows, n_kept):
        """Return every problem's sums over so many rows, and the Shares of the partitions."""
        number = self.n_rounds + 1
        anchors = [solver.anchor for solver in self.solvers]
        heaviest = [(solver.kept_rows, solver.heavy.bound) for solver in self.solvers]
        shares, kept = self._shared_out(n_rows), self._shared_out(n_kept)
        vector, rests = self._retrying(
            lambda: self.partitions.total("round", number, anchors, heaviest, shares, kept)
        )
        self.n_rounds = number
        return np.split(vector, len(self.solvers)), [Share(*rest) for rest in rests]

    def _shared_out(self, n_rows):
        """Return how many of these rows every partition takes; it is the same during a round."""
        n_partitions = len(self.partitions)
        return even_shares(n_rows, set(range(n_partitions)) - self.ended, n_partitions)

    def _hand_over(self, problem, sums, told, n_kept):
        """Give a problem's solver its sums, and rows of all Shares: so many of the first ones."""
        first, others = [], []
        for share, limit in zip(told, self._shared_out(n_kept), strict=True):
            its_first, its_others = split_kept(share.kept, limit, problem)
            first += its_first
            others += its_others + share.heavy[problem].samples
        self.solvers[problem].take_sums(
            sums,
            sum(share.n_rows for share in told),
            sum(share.accesses for share in told),
            sum(share.total_weight for share in told),
            first,
            others,
            bound=max(share.heavy[problem].bound for share in told),
        )

    def _note(self, told):
        for k, share in enumerate(told):
            self.taken[k] += share.n_rows
            if share.n_rows:
                self.dtype = np.promote_types(self.dtype, share.dtype)
        self.ended = {k for k, share in enumerate(told) if share.ended}
