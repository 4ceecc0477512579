"""Who watches a fit: the user's callback, scikit-learn's callbacks, the progress display.

scikit-learn's callback API came with 1.9 and is experimental; without it the two names imported
below do nothing.
"""

import contextlib
import sys
import threading
import time

from sublinear._drive import Snapshot, drive

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:
        """Stands in for scikit-learn's mixin before 1.9."""

    def with_callbacks(method):
        """Stand in for scikit-learn's decorator before 1.9."""
        return method


def call_back(callback, row, model, constant=0.0, class_index=0):
    """Show a user's callback, if there is one, a Snapshot; tells whether it stops the fit."""
    if callback is None:
        return False
    return bool(callback(Snapshot(*row, class_index, model.copy(), constant)))


class Observers:
    """Passes every certificate of a fit on, one caller at a time, and tells whether to stop.

    Parameters
    ----------
    estimator : estimator
        Its `callback` and, where scikit-learn has them, its registered callbacks are called.
    training : Training
        Its X, y and metadata are what scikit-learn's callbacks may ask for.
    n_problems : int
        One-vs-rest problems.
    constant : float
        Value of the constant column, 0 without.
    attributes : callable
        attributes(models) -> dict of fitted attributes, or None; scikit-learn's callbacks may want
        an estimator made of them, once there is a model of every problem.
    """

    def __init__(self, estimator, training, n_problems, constant, attributes):
        self.estimator, self.attributes = estimator, attributes
        self.data = {"X": training.X, "y": training.y, "metadata": training.metadata}
        self.constant = constant
        self.lock = threading.Lock()
        self.context = self.problems = None
        self.models = [None] * n_problems  # the last one of each
        if getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx"):
            self._open_contexts(n_problems)

    def _open_contexts(self, n_problems):
        self.context = self.estimator._init_callback_context(
            max_subtasks=n_problems, sequential_subtasks=False
        )
        self.context.call_on_fit_task_begin(estimator=self.estimator, **self.data)
        self.problems = [
            self.context.subcontext(task_name="problem", task_id=k, max_subtasks=None)
            for k in range(n_problems)
        ]
        for problem in self.problems:
            problem.call_on_fit_task_begin(estimator=self.estimator, **self.data)

    def of_problem(self, class_index):
        """Return the function that `drive` calls at every certificate of one problem."""

        def observe(row, model):
            with self.lock:
                weights = self.estimator._feature_weights(model)
                own = self.estimator.callback
                stop = call_back(own, row, weights, self.constant, class_index)
                return self._call_sklearn(class_index, model) or stop

        return observe

    def _call_sklearn(self, class_index, model):
        if self.problems is None:
            return False
        self.models[class_index] = model.copy()
        certificate = self.problems[class_index].subcontext(task_name="certificate")
        certificate.call_on_fit_task_begin(estimator=self.estimator, **self.data)
        return certificate.call_on_fit_task_end(
            estimator=self.estimator,
            **self.data,
            reconstruction_attributes=self._reconstruction,
        )

    def _reconstruction(self):
        """Return the fitted attributes as they are, None before every problem has a model."""
        if any(model is None for model in self.models):
            return None
        return self.attributes(self.models)

    def close(self):
        """Tell scikit-learn's callbacks that the fit is over."""
        if self.context is not None:
            for context in [*self.problems, self.context]:
                context.call_on_fit_task_end(estimator=self.estimator, **self.data)


def _bar(name, **options):
    """Return a bar of tqdm on stderr, None where tqdm is not installed."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=name, file=sys.stderr, **options)


class Progress:
    """Shows iterations and the gap on stderr: tqdm where it is installed."""

    def __init__(self, name, limits, unit):
        self.name, self.limits, self.unit = name, limits, unit
        # a blank in the unit, which tqdm's own format needs, would show in "s/ epochs"
        shape = "{desc}: {n_fmt} {unit} [{elapsed}, {rate_fmt}{postfix}]"
        self.bar = _bar(name, unit=unit, bar_format=shape, miniters=0)
        if self.bar is not None:
            self.bar.set_postfix_str(f"gap unknown, target {limits.tol:.1g}")

    def tick(self, solver):
        """Show how far the solver is, which may know parts of an iteration."""
        if self.bar is not None:
            self.bar.n = solver.progress
            self.bar.update(0)

    def certificate(self, row):
        """Show a certificate."""
        gap = self.limits.measured(row.primal, row.gap)
        text = f"gap {gap:.2e}, target {self.limits.tol:.1g}"
        if self.bar is not None:
            self.bar.n = max(self.bar.n, row.n_iter)
            self.bar.set_postfix_str(text)
        else:
            print(f"{self.name}: {row.n_iter} {self.unit}, {text}", file=sys.stderr)

    def close(self):
        """Leave the last state on the screen."""
        if self.bar is not None:
            self.bar.close()


def drive_shown(shown, name, unit, solver, limits, *, observe, **options):
    """Do what `drive` does, with a progress display if it is to be `shown`."""
    if not shown or sys.stderr is None:
        return drive(solver, limits, observe=observe, **options)
    with contextlib.closing(Progress(name, limits, unit)) as progress:

        def both(row, model):
            progress.certificate(row)
            return observe(row, model)

        return drive(solver, limits, observe=both, tick=progress.tick, **options)


@contextlib.contextmanager
def rows_shown(shown, name):
    """Lend a function that counts rows, on stderr if they are to be `shown`."""
    if not shown or sys.stderr is None:
        yield lambda rows: None
        return
    with contextlib.closing(RowProgress(name)) as progress:
        yield progress.update


class RowProgress:
    """Shows the rows read from a source and their rate on stderr: tqdm where it is installed."""

    EVERY = 5.0  # seconds, where there is no tqdm

    def __init__(self, name):
        self.name, self.rows = name, 0
        self.started = self.shown = time.perf_counter()
        self.bar = _bar(name, unit=" rows", unit_scale=True)

    def update(self, rows):
        """Count some more rows."""
        self.rows += rows
        if self.bar is not None:
            self.bar.update(rows)
        elif time.perf_counter() - self.shown > self.EVERY:
            self._print()

    def _print(self):
        self.shown = time.perf_counter()
        rate = self.rows / max(self.shown - self.started, 1e-9)
        print(f"{self.name}: {self.rows:,} rows, {rate:,.0f} rows/s", file=sys.stderr)

    def close(self):
        """Leave the last state on the screen."""
        if self.bar is not None:
            self.bar.close()
        else:
            self._print()
