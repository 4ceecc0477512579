"""Partitions on the workers of a Dask cluster. The only file that calls Dask.

An actor on a worker holds a Partition; rows stay where Dask put them. When a worker dies, its
partitions are made again elsewhere: Dask computes their blocks once more.
"""

import asyncio
import itertools
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import numpy as np

from sublinear._stream import checked_block, naming
from sublinear._warnings import warn
from sublinear.distributed._partitions import PartitionsLost, added_neighbours, retrying, sum_of

CONNECT_SECONDS = 10
LOOK_SECONDS = 2  # between two looks whether the workers that are waited for are still there
PATIENCE_SECONDS = 300  # without any worker
LEAST_PATIENCE_SECONDS = 3  # for the first one
OF_A_SOURCE = (  # other OSErrors may come from a lost connection
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
NO_CLIENT = (
    "client must be a dask.distributed.Client that is not asynchronous, the address of a scheduler "
    "or None"
)
PLACE_OF_CHUNK = "chunk %d of the rows"
MOST_VALUES = 1 << 21  # of the vectors that are sent here at once; of more, workers add pairs first


@contextmanager
def connected(client):
    """Yield the Dask client that is given, that of an address, or the current one; None without.

    Meanwhile it is the current one, which actors ask for.

    Raises
    ------
    ValueError
        If its scheduler cannot be reached.
    """
    if client is None:
        yield current_client()
    elif isinstance(client, str):
        from distributed import Client

        try:
            knock_at(client)
        except Exception as error:  # whatever what is no scheduler may answer
            reason = str(error) or type(error).__name__
            raise ValueError(
                f"the scheduler at {client!r} cannot be reached ({reason}): start it, or give the "
                "address that it printed"
            ) from error
        own = Client(client, timeout=CONNECT_SECONDS, set_as_default=False)
        with own, own.as_current():
            yield own
    elif not hasattr(client, "submit"):
        raise ValueError(f"{NO_CLIENT}, got {client!r}")
    elif client.status != "running":
        raise ValueError(
            f"client is {client.status}: its scheduler cannot be reached; make a new Client"
        )
    else:
        check_synchronous(client)
        with client.as_current():
            yield client


def knock_at(address):
    """Connect to a scheduler and leave; raise OSError or ValueError if that fails.

    A Client that fails to connect is not closed: collected later, it may block its process.
    """
    from distributed import Security
    from distributed.comm import connect

    async def knock():
        options = Security().get_connection_args("client")
        # the handshake has no timeout of its own
        comm = await asyncio.wait_for(connect(address, **options), CONNECT_SECONDS)
        comm.abort()

    with ThreadPoolExecutor(1) as pool:  # this thread may have an event loop of its own
        pool.submit(lambda: asyncio.run(knock())).result()


def current_client():
    """Return the Dask client of this process or task, None if there is none."""
    if "distributed" not in sys.modules:
        return None
    try:
        return sys.modules["distributed"].get_client()
    except ValueError:
        return None


def is_dask(X):
    """Tell whether X is a dask array, data frame or series, without importing Dask."""
    return type(X).__module__.startswith("dask.array") or _is_dask_frame(X)


def _is_dask_frame(X):
    """Tell whether X is a dask data frame or series; a column of pandas may have any name."""
    return callable(getattr(X, "to_dask_array", None))


def as_dask_array(X):
    """Return the dask array of a dask data frame or series, its chunks unknown; else X."""
    if not _is_dask_frame(X):
        return X
    if X.ndim == 1 and not isinstance(X.dtype, np.dtype):
        X = X.astype(object)  # what Dask makes of pandas' own types, with a warning
    return X.to_dask_array().map_blocks(np.ascontiguousarray)  # frames lie column by column


def chunks_of(X, y, sample_weight):
    """Return the chunks of rows, delayed tuples of what X and the others hold; and their sizes.

    One graph holds them all: what X and y both come from is computed once for each chunk.

    Raises
    ------
    ValueError
        If the arrays are not cut at the same rows.
    """
    from dask.array import blockwise

    X, y, sample_weight = map(as_dask_array, (X, y, sample_weight))
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, got {X.ndim} dimensions")
    if X.numblocks[1] > 1:
        raise ValueError(
            "a chunk of X must hold all columns of its rows: X.rechunk({1: -1}) makes it so"
        )
    columns = {"y": y} if sample_weight is None else {"y": y, "sample_weight": sample_weight}
    for name, column in columns.items():
        check_cut_alike(X, name, column)
    indexed = itertools.chain((X, "ij"), *((column, "i") for column in columns.values()))
    together = blockwise(
        chunk_of, "i", *indexed, dtype=object, meta=np.empty(0, object), align_arrays=False
    )
    return list(together.to_delayed().ravel()), X.chunks[0]


def check_cut_alike(X, name, column):
    """Raise ValueError unless a column is a dask array that is cut at the same rows as X."""
    if not is_dask(column):
        raise ValueError(f"X is a dask array, so {name} must be one, got {type(column)}")
    if column.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got {column.ndim} dimensions")
    if column.numblocks[0] != X.numblocks[0]:
        raise ValueError(
            f"X has {X.numblocks[0]} chunks of rows, {name} {column.numblocks[0]}: give both the "
            "same chunks with rechunk; compute_chunk_sizes() first where they are unknown"
        )
    pairs = zip(X.chunks[0], column.chunks[0], strict=True)
    if any(a != b for a, b in pairs if not (math.isnan(a) or math.isnan(b))):
        raise ValueError(
            f"the chunks of X and {name} have different sizes: {name}.rechunk(X.chunks[0]) makes "
            "them equal"
        )


def chunk_of(X, *columns):
    """Return a chunk as a tuple; X is in a list, as Dask has blocks of an axis that goes."""
    return *X, *columns


def chunks_like(X, y, sample_weight):
    """Return the chunks as `chunks_of` does, of arrays too; what can be is cut as X first."""
    from dask.array import asarray

    X, y, sample_weight = map(as_dask_array, (X, y, sample_weight))

    def cut(array):
        if array is None or any(map(math.isnan, X.chunks[0])):
            return array
        array = asarray(array)
        return array if any(map(math.isnan, array.chunks[0])) else array.rechunk({0: X.chunks[0]})

    return chunks_of(X, cut(y), cut(sample_weight))[0]


def of_chunks(client, function, chunks, model):
    """Return function([chunk], model, place) for every chunk, computed on the workers, or here."""
    from dask import compute, delayed

    call, model = delayed(function, pure=False), delayed(model)
    tasks = [call([chunk], model, PLACE_OF_CHUNK % k) for k, chunk in enumerate(chunks)]
    return compute(*tasks) if client is None else gathered(client, client.compute(tasks))


def gathered(client, futures):
    """Return the results of futures; after an error workers keep none of them.

    Dask keeps the error, and by its traceback whatever holds the futures.
    """
    with cancelled_after_errors(client, futures), seceded():
        return client.gather(futures)


@contextmanager
def cancelled_after_errors(client, futures):
    """Let workers keep nothing of futures after an error."""
    try:
        yield
    except BaseException:
        cancel(client, futures)
        raise


def cancel(client, futures):
    """Let workers forget futures."""
    if client.status == "running":  # else there is nobody to be told
        client.cancel(futures)


@contextmanager
def seceded():
    """Leave the worker's pool of threads meanwhile if this is a task, which waits for others.

    As Dask's own methods that wait do. A task that has left already comes back when it pleases.
    """
    leaves = False
    if "distributed" in sys.modules:
        from distributed import rejoin, secede
        from distributed.worker import thread_state

        if getattr(thread_state, "key", None):
            with suppress(KeyError, AttributeError):  # it has left, or the pool is none of Dask's
                secede()
                leaves = True
    try:
        yield
    finally:
        if leaves:
            rejoin()


def check_synchronous(client):
    """Raise ValueError for a client whose methods return awaitables."""
    if client.asynchronous:
        raise ValueError(f"{NO_CLIENT}, got {client!r}")


def contiguous_groups(sizes, count):
    """Cut chunks of these sizes into runs of about equal sums; unknown sizes count as equal.

    Returns
    -------
    groups : list of lists of int, none of them empty
    """
    sizes = np.array(sizes, dtype=float)
    sizes = np.ones(len(sizes)) if np.isnan(sizes).any() else np.maximum(sizes, 1e-9)
    middles = np.cumsum(sizes) - sizes / 2
    group = np.minimum(middles * count // sizes.sum(), count - 1).astype(int)
    return [np.flatnonzero(group == k).tolist() for k in range(count) if (group == k).any()]


def make_partition(kind, index, numeric, source, *blocks):
    """Return a partition of blocks or of a pickled source."""
    return kind(index, blocks if source is None else unpickled(source, index), numeric)


def told_of_source(function, source, index, *arguments):
    """Return function(source, *arguments) of a pickled source."""
    return function(unpickled(source, index), *arguments)


def pickled(source):
    """Return bytes: in a message itself, what a worker cannot read would cost Dask the worker."""
    from distributed.protocol import pickle

    return pickle.dumps(source)


def unpickled(source, index):
    """Return a source; ImportError if this worker does not have what it is made of."""
    from distributed.protocol import pickle

    try:
        return pickle.loads(source)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"source {index} cannot be loaded on a worker ({error}): its module has to be there "
            "as well, as with client.upload_file"
        ) from error


def checked_chunk(chunk, numeric, number):
    """Return the Block of a chunk."""
    with naming(PLACE_OF_CHUNK % number):
        return checked_block(chunk, numeric)


def vectors_of(parts):
    """Return vectors: parts that are some, and those that the other partitions have put away."""
    waiting = [part if isinstance(part, np.ndarray) else part.take() for part in parts]
    return [part if isinstance(part, np.ndarray) else part.result() for part in waiting]


def add_on_worker(first, second):
    """Return the sum of the vectors of two parts."""
    return np.add(*vectors_of((first, second)))


def raise_for(losses):
    """Raise PartitionsLost if there are losses: errors by partition, the last one its cause."""
    if losses:
        *_, cause = losses.values()
        raise PartitionsLost(set(losses)) from cause


class ClusterPartitions:
    """Partitions on the workers of a Dask client; like LocalPartitions.

    Parameters
    ----------
    client : distributed.Client
    kind : type
        Of the partitions: Partition or the like.
    numeric : bool
    chunks : list of delayed objects, default=()
        Of tuples (X, y) or (X, y, sample_weight).
    groups : list of lists of int, default=None
        The chunks of every partition. None: a partition is what one worker holds.
    sources : list, default=()
        Instead of chunks: what Partition takes; one per partition.

    Attributes
    ----------
    groups : list of lists of int
        Nothing in them: partitions are of sources.
    n_lost : int
        As in LocalPartitions.
    """

    n_lost = 0

    def __init__(self, client, kind, numeric, *, chunks=(), groups=None, sources=()):
        check_synchronous(client)  # the current one may not be
        self.client, self.kind, self.numeric, self.sources = client, kind, numeric, sources
        with suppress(TimeoutError):  # of a busy scheduler's answer, too
            client.wait_for_workers(1, timeout=LEAST_PATIENCE_SECONDS)
        workers = self._workers()
        if not workers:
            raise ValueError("the cluster has no workers: start some, or wait for them")
        with ExitStack() as end:
            end.enter_context(seceded())
            self.blocks = self._checked(chunks)
            if sources:
                groups = [[] for _ in sources]
            if groups is None:
                self.places, self.groups = self._where_blocks_are()
            else:
                self.groups = groups
                self.places = [workers[k % len(workers)] for k in range(len(groups))]
            self.futures = [None] * len(self.groups)
            self.actors = [None] * len(self.groups)
            end.callback(self._let_go)
            retrying(self, self._make_missing, lambda lost: None, self)
            self._end = end.pop_all()  # without errors it comes with `close`

    def __len__(self):
        return len(self.groups)

    def ask(self, method, *arguments, only=None):
        """As LocalPartitions.ask; raises PartitionsLost once all others have answered."""
        asked = [k for k in range(len(self)) if only is None or k in only]
        return self._answers(
            {k: lambda k=k: getattr(self.actors[k], method)(*arguments) for k in asked}
        )

    def total(self, method, *arguments):
        """As LocalPartitions.total; long vectors are added where the first of each pair is."""
        answers = self.ask("put", MOST_VALUES // len(self), method, *arguments)
        size = answers[0][0]
        if isinstance(size, np.ndarray):
            return sum_of(answers)
        count = max(1, MOST_VALUES // size)
        parts = list(zip(self.futures, self.places, strict=True))
        futures = [future for future, _ in added_neighbours(parts, self._added, count)]
        try:
            vectors = vectors_of(self.client.gather(futures))
        except Exception as error:
            if self._is_loss(error):
                self.ask("ping")  # raises PartitionsLost, and says which
            raise
        return sum_of([(vector,) for vector in vectors])[0], [rest for _, *rest in answers]

    def _added(self, first, second):
        (a, place), (b, _) = first, second
        where = {} if place is None else {"workers": [place], "allow_other_workers": True}
        return self.client.submit(add_on_worker, a, b, pure=False, **where), place

    def close(self):
        """Let the workers forget the partitions; nothing can be asked any more."""
        self._end.close()

    def _let_go(self):
        self._forget(range(len(self)))
        self.blocks = ()

    def _forget(self, partitions):
        """Let go of partitions: else actors live until their cycles are collected here."""
        futures = [self.futures[k] for k in partitions]
        cancel(self.client, [future for future in futures if future is not None])

    def rebuild(self, lost):
        """Make lost partitions anew, on the workers that have the fewest of the others."""
        gone = {self.places[k] for k in lost}
        alive = [worker for worker in self._workers() if worker not in gone]
        kept = [place for k, place in enumerate(self.places) if k not in lost]
        for k in sorted(lost):
            self.places[k] = min(alive, key=kept.count, default=None)
            kept.append(self.places[k])
        self._make(sorted(lost))

    def _workers(self):
        self._check_connection()
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def _check_connection(self, cause=None):
        """Raise RuntimeError if the client has no scheduler any more."""
        if self.client.status != "running":
            raise RuntimeError(
                f"the client lost its connection to the scheduler and is {self.client.status}: "
                "begin the fit again with a new Client; a checkpoint lets it go on"
            ) from cause

    def _checked(self, chunks):
        """Return futures of checked blocks, each where its chunk of X is."""
        from dask import delayed

        check = delayed(checked_chunk, pure=False)
        blocks = self.client.compute(
            [check(chunk, self.numeric, k) for k, chunk in enumerate(chunks)]
        )
        with cancelled_after_errors(self.client, blocks):
            for _ in self._looks(blocks):
                pass
        if any(block.status in ("error", "cancelled") for block in blocks):
            try:
                gathered(self.client, blocks)  # raises it
            except Exception as error:
                self._is_loss(error)  # may say more
                raise
        return blocks

    def _where_blocks_are(self):
        """Return the workers that hold blocks, and the blocks of each in their order."""
        holders = self.client.who_has(self.blocks)
        groups = {}
        for k, block in enumerate(self.blocks):
            holder = holders.get(block.key) or self._workers()
            groups.setdefault(min(holder, default=None), []).append(k)
        return list(groups), list(groups.values())

    def _make_missing(self):
        self._make([k for k, actor in enumerate(self.actors) if actor is None])

    def _make(self, partitions):
        self._forget(partitions)
        for k in partitions:
            place = self.places[k]
            self.futures[k] = self.client.submit(
                make_partition,
                self.kind,
                k,
                self.numeric,
                pickled(self.sources[k]) if self.sources else None,
                *(self.blocks[i] for i in self.groups[k]),
                actor=True,
                pure=False,
                workers=None if place is None else [place],
                allow_other_workers=place is not None,
            )
        homeless = self._await_making(partitions)
        losses = dict.fromkeys(homeless, OSError("a worker is gone"))
        for k in set(partitions) - homeless:
            with self._noting_loss(k, losses):
                self.actors[k] = self._result_of(k, self.futures[k])
        raise_for(losses)

    def _await_making(self, partitions):
        """Wait until partitions are made; return those that are not, as their worker is gone.

        Where no other worker is left, their tasks wait for one of that address, whoever joins.
        """
        for workers in self._looks([self.futures[k] for k in partitions]):
            missing = {k for k in partitions if not self.futures[k].done()}
            if all(self.places[k] not in {None, *workers} for k in missing):
                return missing
        return set()

    def _looks(self, futures):
        """Wait for futures; yield the workers that there are at every look.

        Raises
        ------
        RuntimeError
            If the connection to the scheduler is lost, or there are no workers for too long.
        """
        from distributed import CancelledError, wait

        alone_since = None
        while missing := [future for future in futures if not future.done()]:
            with suppress(TimeoutError, CancelledError):
                wait(missing, timeout=LOOK_SECONDS)
            workers = self._workers()
            alone_since = self._wait_for_workers(workers, alone_since)
            yield workers

    def _wait_for_workers(self, workers, alone_since):
        """Return since when there are none, None if there are; warn, and give up in the end."""
        now = time.monotonic()
        if workers:
            return None
        if alone_since is None:
            warn(
                "the cluster has no workers any more: the fit waits for new ones, for "
                f"{PATIENCE_SECONDS} s at most",
                RuntimeWarning,
            )
            return now
        if now - alone_since > PATIENCE_SECONDS:
            raise RuntimeError(f"the cluster has had no workers for {PATIENCE_SECONDS} s")
        return alone_since

    def _answers(self, requests):
        """Send all requests, then wait for all answers; requests maps partitions to functions."""
        sent, answers, losses = {}, [], {}
        for k, request in requests.items():
            with self._noting_loss(k, losses):
                sent[k] = request()
        for k, answer in sent.items():
            with self._noting_loss(k, losses):
                answers.append(self._result_of(k, answer))
        raise_for(losses)
        return answers

    @contextmanager
    def _noting_loss(self, k, losses):
        """Note in `losses` the error by which partition k turns out to be lost."""
        try:
            yield
        except Exception as error:
            if not self._is_loss(error):
                raise
            losses[k] = error

    def _result_of(self, k, answer):
        """Wait for an answer of partition k; raise OSError if its actor is gone.

        Dask may leave a request without any answer then, not even an error.
        """
        while True:
            try:
                return answer.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                if answer.done():
                    raise
                if self.futures[k].status != "finished":
                    raise OSError(f"the actor of partition {k} is gone") from None

    def _is_loss(self, error):
        """Tell whether an error says that a worker is gone; raise RuntimeError if all is lost."""
        from distributed import CancelledError
        from distributed.scheduler import KilledWorker

        self._check_connection(error)
        if isinstance(error, CancelledError):
            raise RuntimeError(
                "rows are lost that Dask cannot compute again: a worker died with data that was "
                "scattered to it (build the dask arrays from files or functions), tasks were "
                "cancelled or the cluster restarted, or the client lost its connection to the "
                "scheduler for a while (begin the fit again)"
            ) from error
        if isinstance(error, OF_A_SOURCE):
            return False
        gone = isinstance(error, RuntimeError) and "Actor was lost" in str(error)
        return gone or isinstance(error, (OSError, KilledWorker))
