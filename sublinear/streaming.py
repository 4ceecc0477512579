"""Streaming SVRG: StreamingSVRGRegressor and StreamingSVRGClassifier.

One pass over rows that come in blocks, in memory that does not grow with their number, and a model
whose risk is that of the empirical risk minimiser of all rows, up to a few per cent.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sublinear._archive import plain_seeds, seeds_of
from sublinear._classification import OneVsRestMixin, ProbabilityMixin
from sublinear._core.aligned import contiguous
from sublinear._core.losses import COUNT_LOSSES, MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.order import Order
from sublinear._core.random import RandomBits
from sublinear._core.row_blocks import RowBlock
from sublinear._core.states import parts_of, prefixed, reading, take
from sublinear._documentation import with_parameters
from sublinear._fit_method import all_or_nothing
from sublinear._fitted_parameters import fitted_with, note_parameters
from sublinear._labels import (
    class_targets,
    combine_weights,
    count_targets,
    declared_classes,
    find_classes,
    positive_classes,
)
from sublinear._solvers.streaming_svrg import CombinedSVRG, PaperSVRG
from sublinear._stream import StreamFit, UncheckedBlock
from sublinear._threads import effective_threads
from sublinear._validation import (
    check_choice,
    check_flag,
    check_intercept_scaling,
    check_loss,
    check_number,
    check_run_parameters,
    check_sample_weight,
    check_training_data,
    products_with,
    seed_sequence,
)
from sublinear._warnings import warn
from sublinear.sources._arrays import rows_of_a_block
from sublinear.theory import streaming_svrg_parameters

VALUES_PER_SUM = 32  # from which on copies of sums cost less than a look at a block's values
FEW_WEIGHTS = 1000  # of which sums are copied for every block
LEAST_KEPT_ROWS = 4096
KEPT_ROWS_PER_WEIGHT = 20
MOST_KEPT_VALUES = 2**23  # unless LEAST_KEPT_ROWS rows have more
# why there is no estimate of the excess risk
WHY_NOT_KNOWN = (
    "few of the kept rows decide the model (classes that are nearly separable, or few rows for so "
    "many weights), a penalty that was better for the first rows has not faded yet, columns lie a "
    "million times as far from 0 as they spread (centre them), a few rows are far longer than the "
    "kept ones (scale them), or Newton's method did not converge; raise alpha or kept_rows"
)
# attributes computed when first asked for after new rows
_COMPUTED = frozenset({"coef_", "intercept_", "n_iter_", "result_"})

_PARAMETERS = """\
constants : {"practical", "theory"}, default="practical"
        "practical": stages are combined, and the inner problem of a stage is solved on rows kept in
        memory; nothing about the data needs to be known. "theory": the paper's Algorithm 1 with the
        parameters of `theory.streaming_svrg_parameters`, which need `smoothness` and
        `strong_convexity`.
    kept_rows : int, default=None
        "practical": rows kept of a stage. None: 20 for every feature, 4096 at the least, and at the
        most as many as hold 2^23 values if dense. Where few of them decide the model, as with
        classes that are nearly separable, as many as hold 2^23 values; a sparse entry counts as 2.
    growth : float, default=None
        By what factor a stage multiplies the rows seen ("practical", default 2; less where few kept
        rows for so many weights hold its step back), or b, by which a stage is longer than the last
        one ("theory", default 3).
    order : float, default=2.0
        "theory": p, the power at which the initial error falls.
    smoothness, strong_convexity : float, default=None
        "theory": L of the loss of any row, and mu of its mean, as functions of w.
    hessian_ratio : float, default=1.0
        "theory": a, the Hessian of P at its minimum by the least one anywhere: 1 for the squared
        loss, and for others at most `smoothness / strong_convexity`.
    step, first_stage, inner_steps : float, int, int, default=None
        "theory": eta, k_0 and m in place of those, which make long stages.
    fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row, penalised like the
        others.
    %(intercept_scaling)s
    penalize_intercept : bool, default=True
        False: the penalty is alpha / 2 |coef|^2 alone, whatever `intercept_scaling` is.
    shuffle : bool, default=True
        Let `fit` take the rows in random order. A stream is taken as it comes: its rows should be
        independent draws, not sorted by label.
    n_jobs : int, default=None
        Threads for the gradients of a stage. The result does not depend on them.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the order of rows, and the numbers of inner steps of "theory".
    warm_start : bool, default=False
        Let `fit` and `fit_stream` go on from the rows seen so far, as `partial_fit` does.
    verbose : int, default=0
        1: show progress of `fit_stream` on stderr.
"""

_PENALTY = """\
alpha : float, default=0.0
        Strength of the penalty alpha / 2 |w|^2. With constants="practical" it is more at first,
        and fades to alpha as rows come, where the first rows are few for so many weights, as those
        of texts are, and a larger one is better on some of them that are held out."""

_NUMBERS = """\
y : array-like of shape (n_samples,)
        Numbers; with loss="poisson" not negative."""

_ATTRIBUTES = """\
n_features_in_ : int
    %(feature_names)s
    n_iter_ : int
        Stages completed.
    result_ : StreamResult
        Computed, and its warnings given, when first asked for after new rows.
    %(stream_summary)s
"""


@dataclass(frozen=True)
class StreamResult:
    """What is known of a model after one pass.

    `sigma_squared`, `excess_risk` and its interval are estimates to first order in 1 / rows, from
    kept rows of the last stage. They take for granted that the curvature and the gradients of
    these rows are those of other rows. Where they cannot be - few rows decide the model, as with
    classes that are nearly separable and a small alpha, with few rows for so many weights, or
    with a few rows that are far longer or far on the wrong side - or where a penalty that was
    better for the first rows has not faded yet, or Newton's method did not converge, they are
    NaN, the interval is (0, inf), and a ConvergenceWarning says so. They are computed, and the
    warning is given, when `result_` is first read after new rows: no fit does it.

    Attributes
    ----------
    n_rows : int
        Rows seen.
    n_stages : int
        Stages completed.
    accesses : int
        Feature values read.
    progressive_loss : float
        Mean loss of the rows of a stage at the model from before them: an honest estimate of the
        risk of that model. NaN in the first stage.
    sigma_squared : float
        E |gradient at the optimum|^2 / 2 in the norm of the inverse Hessian; with weights, the
        weighted mean of weight times that square. NaN if not known.
    excess_risk : float
        The expected excess risk of the model: sigma_squared / rows (with weights: / their sum),
        which that of the empirical risk minimiser tends to, times a factor above 1 for what the
        kept rows do not know of the curvature of all. NaN if not known.
    excess_risk_interval : tuple of two floats
        Holds the excess risk of the model with probability 0.95, to first order. With
        constants="theory" none of the three is estimated, and its ends are NaN, too.
    parts : tuple of StreamResult
        One-vs-rest: the result of every class. Sums are reported above, but for `n_rows` and
        `n_stages`; what is not known of one class is not known of the sum. Empty otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear import StreamingSVRGRegressor
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> result = StreamingSVRGRegressor().fit(X, X[:, 0]).result_
    >>> result.n_rows, len(result.excess_risk_interval)
    (2000, 2)
    """

    n_rows: int
    n_stages: int
    accesses: int
    progressive_loss: float
    sigma_squared: float
    excess_risk: float
    excess_risk_interval: tuple[float, float]
    parts: tuple["StreamResult", ...] = ()

    def __repr__(self):
        low, high = self.excess_risk_interval
        return (
            f"StreamResult(n_rows={self.n_rows}, n_stages={self.n_stages}, "
            f"accesses={self.accesses:.4g}, progressive_loss={self.progressive_loss:.6g}, "
            f"excess_risk={self.excess_risk:.3g}, "
            f"excess_risk_interval=({low:.3g}, {high:.3g}))"
        )


def _result_of(solver):
    risk = solver.risk()
    return StreamResult(
        n_rows=solver.n_rows,
        n_stages=solver.n_stages,
        accesses=solver.accesses + solver.gradient.accesses,
        progressive_loss=solver.progressive_loss(),
        sigma_squared=risk.sigma_squared,
        excess_risk=risk.excess_risk,
        excess_risk_interval=risk.interval,
    )


def _combined(parts):
    """Return the StreamResult of one-vs-rest problems."""
    sums = {
        name: sum(getattr(part, name) for part in parts)
        for name in ("accesses", "progressive_loss", "sigma_squared", "excess_risk")
    }
    intervals = [part.excess_risk_interval for part in parts]
    interval = tuple(sum(ends) for ends in zip(*intervals, strict=True))
    return StreamResult(
        n_rows=parts[0].n_rows,
        n_stages=parts[0].n_stages,
        excess_risk_interval=interval,
        parts=tuple(parts),
        **sums,
    )


class _StreamingSVRG(StreamFit, BaseEstimator):
    """What both estimators share: the pass, the fitted attributes, prediction."""

    # parameters that may change between blocks
    _may_change = frozenset({"n_jobs", "random_state", "shuffle", "verbose", "warm_start"})
    _checks_values = True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self):
        return getattr(self, "_solvers", None) is not None

    def __getstate__(self):
        state = dict(super().__getstate__())
        if state.get("_solvers"):
            state["_solvers"] = self._stream_state()
            del state["_known"]  # predictions add to it, and solvers know all of it
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if getattr(self, "_solvers", None):
            present = self.get_params(deep=False)
            # the parameters may have changed since; the seeds are those of the state
            usual = {name: None for name in ("n_jobs", "random_state") if name in present}
            self.set_params(**self._made_with, **usual)
            self._set_stream_state(self._solvers)
            self.set_params(**present)

    def _is_stored(self, before):
        """Tell, after an error, whether there is a new model: solvers that have seen more rows."""
        solvers, old = vars(self).get("_solvers"), before.get("_solvers")
        seen = old[0].n_rows if self.warm_start and old else 0
        return solvers is not old and bool(solvers) and solvers[0].n_rows > seen

    def _copy_solvers(self):
        """Go on with copies of the solvers, so that an error brings the old ones back as they were.

        Blocks may change them in place: see `_take`.
        """
        if self._solvers and self._solvers[0].n_rows > 0:
            self._solvers = [solver.copy() for solver in self._solvers]

    def _restore(self, coef, intercept, n_iter, result):
        """Become a model that was fitted elsewhere; it has no rows to go on from."""
        note_parameters(self)
        self._solvers = []
        self._known = {"coef_": coef, "intercept_": intercept, "n_iter_": n_iter, "result_": result}

    def _goes_on(self):
        """Tell whether there are rows to go on from; ValueError for a restored model."""
        if self.__sklearn_is_fitted__() and not self._solvers:
            self._refuse_to_go_on()
        return self.__sklearn_is_fitted__()

    def _check_parameters(self):
        check_loss(self, self._losses)
        check_choice("constants", self.constants, ("practical", "theory"))
        check_number("alpha", self.alpha, low=0)
        check_intercept_scaling(self)
        for name in ("fit_intercept", "penalize_intercept", "shuffle", "warm_start"):
            check_flag(name, getattr(self, name))
        for name in ("kept_rows", "first_stage", "inner_steps"):
            check_number(name, getattr(self, name), low=1, integer=True, optional=True)
        for name in ("smoothness", "strong_convexity", "step"):
            check_number(name, getattr(self, name), low=0, open_low=True, optional=True)
        check_number("growth", self.growth, low=1, open_low=True, optional=True)
        check_number("order", self.order, low=2)
        check_number("hessian_ratio", self.hessian_ratio, low=1)
        check_run_parameters(self)

    def _make_solver(self, n_weights, seed):
        loss = self._losses[self.loss].maker(self)()
        n_threads = effective_threads(self.n_jobs)
        alpha = np.full(n_weights, self.alpha, dtype=np.float64)
        if self.fit_intercept and not self.penalize_intercept:
            alpha[-1] = 0.0
        if self.constants == "practical":
            return CombinedSVRG(
                loss,
                n_weights,
                alpha,
                kept_rows=self.kept_rows or default_kept_rows(n_weights),
                most_kept_values=0 if self.kept_rows else MOST_KEPT_VALUES,
                growth=self.growth or 2.0,
                n_threads=n_threads,
            )
        constants = self._constants_of_theory()
        return PaperSVRG(loss, n_weights, alpha, RandomBits(seed), n_threads=n_threads, **constants)

    def _constants_of_theory(self):
        """Return the constants of a PaperSVRG: those that are given, others by the theorem."""
        if self.smoothness is None or self.strong_convexity is None:
            raise ValueError('constants="theory" needs smoothness and strong_convexity')
        if self.smoothness < self.strong_convexity:
            raise ValueError(
                f"smoothness must be at least strong_convexity, got {self.smoothness!r} and "
                f"{self.strong_convexity!r}"
            )
        growth = self.growth or 3.0
        stages = {name: getattr(self, name) for name in ("step", "first_stage", "inner_steps")}
        if None in stages.values():
            theory = streaming_svrg_parameters(
                self.smoothness / self.strong_convexity,
                growth=growth,
                order=self.order,
                hessian_ratio=self.hessian_ratio,
            )
            stages = {name: given or getattr(theory, name) for name, given in stages.items()}
        return {"smoothness": self.smoothness, "growth": growth, **stages}

    def _begin(self, n_problems):
        """Forget all rows."""
        n_weights = self.n_features_in_ + self.fit_intercept
        self._stream_seeds = seed_sequence(self.random_state)
        parameters = self.get_params(deep=False).items()
        self._made_with = {
            name: dict(p) if isinstance(p, dict) else p  # which the user may change in place
            for name, p in parameters
            if name not in self._may_change
        }
        self._dtype, self._known = np.dtype(np.float32), {}  # until there are rows of float64
        seeds = self._stream_seeds.spawn(n_problems)
        self._solvers = [self._make_solver(n_weights, seed) for seed in seeds]

    def _blocks(self, X, targets, sample_weight, order=None):
        """Return a RowBlock with the targets of every problem, without rows of weight 0."""
        self._check_same_problem()
        if sample_weight is not None and not sample_weight.all():
            chosen = np.arange(len(sample_weight)) if order is None else order
            order = chosen[sample_weight[chosen] > 0].astype(np.uint32)
        constant = self.intercept_scaling if self.fit_intercept else 0.0
        self._dtype = np.promote_types(self._dtype, X.dtype)
        return RowBlock(X, targets[0], sample_weight, constant, order).with_all(targets)

    def _use_threads(self):
        """Let solvers have the threads of now: n_jobs may change between blocks, processes fork."""
        n_threads = effective_threads(self.n_jobs)
        for solver in self._solvers:
            solver.n_threads = solver.gradient.n_threads = n_threads

    def _check_same_problem(self):
        changed = [name for name, p in self._made_with.items() if getattr(self, name) != p]
        if changed:
            raise ValueError(
                f"{', '.join(changed)} must not change while a model goes on (partial_fit, "
                "warm_start): it has rows that were taken with the old value; fit a new one"
            )

    def _take(self, blocks, start=0, stop=None, finite=False):
        """Show every solver the rows start .. stop - 1 of its RowBlock, or all from `start` on.

        After an error none has seen them: copies do, unless there are so many weights that copies
        of the sums would cost more than a block, and no stage ends, where errors come from.
        `finite`, which makes an error of sums out of range, is for blocks that are worth copies.
        """
        self._known, solvers = {}, self._solvers
        n_rows = (blocks[0].n_rows if stop is None else stop) - start
        if finite or self.n_features_in_ <= FEW_WEIGHTS or n_rows >= solvers[0].rows_left:
            solvers = [solver.copy() for solver in solvers]
        for solver, block in zip(solvers, blocks, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):  # found where a model is asked for
                solver.take(block, start, stop, finite)
        self._solvers = solvers

    def _take_finite(self, blocks, n_values, *rows):
        """Take the rows and let the solvers' sums tell whether X, of `n_values`, is finite.

        Return False, with no row taken, where that does not pay (few values per weight), cannot
        tell (rows of weight 0 are in no sum), or a sum is not finite.
        """
        if self.constants != "practical" or n_values <= VALUES_PER_SUM * self.n_features_in_:
            return False
        if blocks[0].n_rows < blocks[0].matrix.n_rows:
            return False
        try:
            self._take(blocks, *rows, finite=True)
        except FloatingPointError:
            return False
        return True

    def _admitted(self, X, y, sample_weight, **options):
        """Check rows as `partial_fit` gets them, begin with the first; return their blocks.

        Options are those of `partial_fit`, and of `check_training_data`.
        """
        raise NotImplementedError("a subclass knows its targets")

    def _weighed(self, y, weights):
        """Return the weights of rows, None for 1 each, times those of their classes."""
        return weights

    def _fit_source(self, stream, classes, checkpoint):
        if self.warm_start and self.__sklearn_is_fitted__():
            self._copy_solvers()
        super()._fit_source(stream, classes, checkpoint)

    def _learn_block(self, block, first, options):
        # as partial_fit, without the checks that the Stream has made
        if first:
            blocks = self._admitted(*block, skip_check_array=True, **options)
        else:
            targets = self._targets(block.y)  # which finds labels that are not known
            blocks = self._blocks(block.X, targets, self._weighed(block.y, block.sample_weight))
        if not block.is_checked:
            if self._take_finite(blocks, block.X.size):
                return
            block.checked()
        self._take(blocks)

    def _take_all(self, X, y, targets, sample_weight):
        """Take the rows of `fit` in their order, or a random one, with looks at Ctrl-C between.

        Nobody has looked at the values of X yet.
        """
        self._copy_solvers()
        self._use_threads()
        order = None
        if self.shuffle:
            random = RandomBits(self._seeds(1)[0])
            order = Order(X.shape[0], "shuffle", random).take(X.shape[0])
        weights = self._weighed(y, check_sample_weight(sample_weight, X))
        whole = self._blocks(X, targets, weights, order)[0]
        most_rows = rows_of_a_block(X)
        n_values = X.size * min(1.0, most_rows / X.shape[0])
        is_checked = False
        try:
            for start in range(0, whole.n_rows, most_rows):
                rows = start, min(start + most_rows, whole.n_rows)
                blocks = whole.with_all(targets)
                if not is_checked:
                    if self._take_finite(blocks, n_values, *rows):
                        continue
                    UncheckedBlock(X, y, weights).checked()
                    is_checked = True
                self._take(blocks, *rows)
        except ValueError:
            self._solvers = None  # unlike after Ctrl-C, no part of these rows makes a model
            raise
        self._find_models()

    def _find_models(self):
        """Let `fit` say what keeps models from being found; then there are none."""
        try:
            self._models()
        except ValueError:
            self._solvers = None
            raise

    def __dir__(self):
        """Names without a look at what is computed when asked for, which may warn."""
        fitted = self.__sklearn_is_fitted__()
        return [
            name
            for name in object.__dir__(self)
            if (fitted if name in _COMPUTED else hasattr(self, name))
        ]

    def _fitted(self, name, compute):
        """Return a fitted attribute, computed when first asked for after new rows."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no {name} before it is fitted")
        if name not in self._known:
            self._known[name] = compute()
        return self._known[name]

    def _models(self):
        """Return the weights of every problem, shape (n_problems, n_weights), of X's dtype."""

        def compute():
            first = self._solvers[0]
            with np.errstate(over="ignore", invalid="ignore"):  # found below
                models = np.stack([solver.model() for solver in self._solvers]).astype(self._dtype)
            if not np.isfinite(models).all():
                raise ValueError(
                    "the fit left the range of floating-point numbers: scale X to values near 1, "
                    f"y down, or raise {first.tamed_by}"
                )
            if not first.has_stepped:
                warn(
                    f"{type(self).__name__}: no step after {first.n_rows} rows, as the first stage "
                    f"takes the mean gradient of {first.stage_rows} rows: lower first_stage"
                )
            if not all(solver.converged for solver in self._solvers):
                warn(
                    f"{type(self).__name__}: Newton's method on the kept rows did not converge: "
                    "raise alpha, or make the loss smoother"
                )
            return models

        return self._fitted("_models", compute)

    @property
    def n_iter_(self):
        return self._fitted("n_iter_", lambda: self._solvers[0].n_stages)

    @property
    def result_(self):
        def compute():
            parts = [_result_of(solver) for solver in self._solvers]
            if any(np.isinf(part.excess_risk_interval[1]) for part in parts):
                warn(f"{type(self).__name__}: the excess risk is not known: {WHY_NOT_KNOWN}")
            return parts[0] if len(parts) == 1 else _combined(parts)

        return self._fitted("result_", compute)

    def _scores(self, X):
        check_is_fitted(self)
        return products_with(self, X, np.atleast_2d(self.coef_).T) + self.intercept_

    def _intercepts(self):
        """Return the intercept of every problem, shape (n_problems,)."""
        models = self._models()
        if not self._made_with["fit_intercept"]:
            return np.zeros(len(models), dtype=self._dtype)
        return models[:, -1] * models.dtype.type(self._made_with["intercept_scaling"])

    def _stream_state(self):
        state = {
            "seeds": plain_seeds(self._stream_seeds),
            "n_features": self.n_features_in_,
            "dtype": str(self._dtype),
        }
        for k, solver in enumerate(self._solvers):
            state |= prefixed(k, solver.state())
        return state

    def _set_stream_state(self, state):
        self._solvers = None
        if state is None:
            return
        parts = parts_of(state)
        self.n_features_in_ = take(state, "n_features", 0)
        with reading(state, "n_features"):
            self._begin(len(parts))
        self._stream_seeds = seeds_of(state)
        with reading(state, "dtype") as name:
            self._dtype, self._known = np.dtype(name), {}
        for solver, part in zip(self._solvers, parts, strict=True):
            solver.resume(part)


def default_kept_rows(n_weights):
    """Return how many rows CombinedSVRG keeps of a stage unless told."""
    most = MOST_KEPT_VALUES // n_weights
    return max(LEAST_KEPT_ROWS, min(KEPT_ROWS_PER_WEIGHT * n_weights, most))


@with_parameters(alpha=_PENALTY, common=_PARAMETERS, attributes=_ATTRIBUTES)
class StreamingSVRGRegressor(RegressorMixin, _StreamingSVRG):
    """Linear regression in one pass over a stream, by Streaming SVRG.

    Minimises the expectation of the loss over the distribution of the rows, plus
    alpha / 2 |w|^2, in memory that does not depend on the number of rows. The model's expected
    excess risk is near that of the empirical risk minimiser of all rows seen, whenever the stream
    ends.

    Parameters
    ----------
    loss : {"squared", "huber", "poisson"}, default="squared"
        "squared": (z - y)^2 / 2; "huber": the same for |z - y| <= epsilon, linear beyond;
        "poisson": counts y of mean exp(z), which `predict` returns.
    %(alpha)s
    epsilon : float, default=1.35
        Where loss="huber" becomes linear, in the units of y. (That of the other regressors is 0.1
        by default.)
    %(common)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Of the dtype of X; computed when first asked for after new rows.
    intercept_ : float
    %(attributes)s

    See Also
    --------
    SDCARegressor : many passes, with a certificate.

    References
    ----------
    Frostig, Ge, Kakade, Sidford, "Competing with the empirical risk minimizer in a single pass",
    COLT 2015, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear import StreamingSVRGRegressor
    >>> random = np.random.default_rng(0)
    >>> def stream():
    ...     for _ in range(20):
    ...         X = random.normal(size=(1000, 3))
    ...         yield X, X @ [1.0, 2.0, 3.0] + random.normal(size=1000)
    >>> model = StreamingSVRGRegressor().fit_stream(stream())
    >>> model.coef_.round(1)
    array([1., 2., 3.])
    """

    _losses = {
        "squared": REGRESSION_LOSSES["squared"],
        "huber": REGRESSION_LOSSES["huber"],
        **COUNT_LOSSES,
    }

    def __init__(
        self,
        loss="squared",
        *,
        alpha=0.0,
        epsilon=1.35,
        constants="practical",
        kept_rows=None,
        growth=None,
        order=2.0,
        smoothness=None,
        strong_convexity=None,
        hessian_ratio=1.0,
        step=None,
        first_stage=None,
        inner_steps=None,
        fit_intercept=True,
        intercept_scaling=1.0,
        penalize_intercept=True,
        shuffle=True,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
    ):
        self.loss = loss
        self.alpha = alpha
        self.epsilon = epsilon
        self.constants = constants
        self.kept_rows = kept_rows
        self.growth = growth
        self.order = order
        self.smoothness = smoothness
        self.strong_convexity = strong_convexity
        self.hessian_ratio = hessian_ratio
        self.step = step
        self.first_stage = first_stage
        self.inner_steps = inner_steps
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.penalize_intercept = penalize_intercept
        self.shuffle = shuffle
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags

    @all_or_nothing
    @with_parameters(y=_NUMBERS)
    def fit(self, X, y, sample_weight=None):
        """Fit the model to all rows at once, in one pass.

        Parameters
        ----------
        %(rows)s
        %(y)s
        %(sample_weight)s

        Returns
        -------
        self : StreamingSVRGRegressor

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do. The estimator is
            left as it was.
        """
        self._check_parameters()
        first = not (self.warm_start and self._goes_on())
        rows = self._checked(X, y, first, ensure_all_finite=False)
        self._take_all(*rows, sample_weight)
        return self

    @all_or_nothing
    @with_parameters(y=_NUMBERS)
    def partial_fit(self, X, y, sample_weight=None):
        """Go on with more rows of the stream.

        Parameters
        ----------
        %(rows)s
        %(y)s
        %(sample_weight)s

        Returns
        -------
        self : StreamingSVRGRegressor

        Raises
        ------
        ValueError
            For parameters or data that make no sense, or rows that do not continue those before;
            the message says what to do. The estimator is left as it was.
        """
        self._take(self._admitted(X, y, sample_weight))
        return self

    def _admitted(self, X, y, sample_weight, **checks):
        self._check_parameters()
        X, y, targets = self._checked(X, y, not self._goes_on(), **checks)
        self._use_threads()
        return self._blocks(X, targets, check_sample_weight(sample_weight, X))

    def _checked(self, X, y, first, **checks):
        """Begin with the first rows; return X and y as arrays, and the targets."""
        X, y = check_training_data(self, X, y, y_numeric=True, reset=first, **checks)
        targets = self._targets(y)
        if first:
            self._begin(1)
        return X, y, targets

    def _targets(self, y):
        return [count_targets(y) if self.loss == "poisson" else contiguous(y, dtype=np.float64)]

    @property
    def coef_(self):
        return self._fitted("coef_", lambda: self._models()[0, : self.n_features_in_])

    @property
    def intercept_(self):
        return self._fitted("intercept_", lambda: self._intercepts()[0])

    @with_parameters()
    def predict(self, X):
        """Return <x_i, coef> + intercept, its exponential with loss="poisson".

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        scores = self._scores(X).ravel()
        return np.exp(scores) if fitted_with(self, "loss") == "poisson" else scores


@with_parameters(alpha=_PENALTY, common=_PARAMETERS, attributes=_ATTRIBUTES)
class StreamingSVRGClassifier(ProbabilityMixin, OneVsRestMixin, _StreamingSVRG):
    """Linear classification in one pass over a stream, by Streaming SVRG.

    See StreamingSVRGRegressor; with more than two classes one model per class (one-vs-rest).

    Parameters
    ----------
    loss : {"logistic", "smoothed_hinge", "squared_hinge"}, default="logistic"
        As in SDCAClassifier.
    %(alpha)s
    smoothing : float, default=1.0
        Width of the rounded part of loss="smoothed_hinge".
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the examples by class; "balanced" gives all the same total, which
        takes `fit`: a stream does not tell how many examples of a class will come.
    %(common)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Of the dtype of X; computed when first asked for after new rows.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    %(attributes)s

    See Also
    --------
    SDCAClassifier : many passes, with a certificate.

    References
    ----------
    Frostig, Ge, Kakade, Sidford, "Competing with the empirical risk minimizer in a single pass",
    COLT 2015, Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sublinear import StreamingSVRGClassifier
    >>> X, y = make_classification(10_000, random_state=0)
    >>> model = StreamingSVRGClassifier(random_state=0).fit(X, y)
    >>> low, high = model.result_.excess_risk_interval
    >>> low < high < 0.01
    True
    """

    _losses = {
        name: MARGIN_LOSSES[name] for name in ("logistic", "smoothed_hinge", "squared_hinge")
    }

    def __init__(
        self,
        loss="logistic",
        *,
        alpha=0.0,
        smoothing=1.0,
        class_weight=None,
        constants="practical",
        kept_rows=None,
        growth=None,
        order=2.0,
        smoothness=None,
        strong_convexity=None,
        hessian_ratio=1.0,
        step=None,
        first_stage=None,
        inner_steps=None,
        fit_intercept=True,
        intercept_scaling=1.0,
        penalize_intercept=True,
        shuffle=True,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
    ):
        self.loss = loss
        self.alpha = alpha
        self.smoothing = smoothing
        self.class_weight = class_weight
        self.constants = constants
        self.kept_rows = kept_rows
        self.growth = growth
        self.order = order
        self.smoothness = smoothness
        self.strong_convexity = strong_convexity
        self.hessian_ratio = hessian_ratio
        self.step = step
        self.first_stage = first_stage
        self.inner_steps = inner_steps
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.penalize_intercept = penalize_intercept
        self.shuffle = shuffle
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    @all_or_nothing
    @with_parameters()
    def fit(self, X, y, sample_weight=None):
        """Fit the model to all rows at once, in one pass.

        Parameters
        ----------
        %(rows)s
        %(labels)s
        %(sample_weight)s

        Returns
        -------
        self : StreamingSVRGClassifier

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do. The estimator is
            left as it was.
        """
        self._check_parameters()
        first = not (self.warm_start and self._goes_on())
        if not first:
            self._refuse_to_balance()
        X, y = check_training_data(self, X, y, reset=first, ensure_all_finite=False)
        if first:
            self._begin_classes(find_classes(y))
        self._take_all(X, y, self._targets(y), sample_weight)
        return self

    @all_or_nothing
    @with_parameters()
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Go on with more rows of the stream.

        Parameters
        ----------
        %(rows)s
        %(labels)s
        %(all_classes)s
        %(sample_weight)s

        Returns
        -------
        self : StreamingSVRGClassifier

        Raises
        ------
        ValueError
            For parameters or data that make no sense, or rows that do not continue those before;
            the message says what to do. The estimator is left as it was.
        """
        self._take(self._admitted(X, y, sample_weight, classes))
        return self

    def _admitted(self, X, y, sample_weight, classes=None, **checks):
        self._check_parameters()
        self._refuse_to_balance()
        first = not self._goes_on()
        X, y = check_training_data(self, X, y, reset=first, **checks)
        classes = declared_classes(y, classes, None if first else self.classes_)
        if first:
            self._begin_classes(classes)
        self._use_threads()
        weights = self._weighed(y, check_sample_weight(sample_weight, X))
        return self._blocks(X, self._targets(y), weights)

    def _fit_source(self, stream, classes, checkpoint):
        self._refuse_to_balance()
        super()._fit_source(stream, classes, checkpoint)

    def _is_balanced(self):
        if not isinstance(self.class_weight, str):
            return False
        check_choice("class_weight", self.class_weight, ("balanced",))
        return True

    def _refuse_to_balance(self):
        if self._is_balanced():
            raise ValueError(
                'class_weight="balanced" is for a new fit(X, y): a stream does not tell how many '
                "examples of a class will come. Pass a dict of factors, such as those that "
                "sklearn.utils.class_weight.compute_class_weight finds for the labels of a sample"
            )

    def _weighed(self, y, weights):
        return combine_weights(self.class_weight, self.classes_, y, weights)

    def _begin_classes(self, classes):
        self.classes_ = classes
        self._begin(len(positive_classes(classes)))

    def _targets(self, y):
        return class_targets(y, self.classes_)

    @property
    def coef_(self):
        return self._fitted("coef_", lambda: self._models()[:, : self.n_features_in_])

    @property
    def intercept_(self):
        return self._fitted("intercept_", self._intercepts)
