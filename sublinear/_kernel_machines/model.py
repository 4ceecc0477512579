"""What kernel machines share: the kernel, their training, support vectors, prediction."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from sublinear._certified_model import SPOILT, CertifiedModel, metadata_of, warn_if_limited
from sublinear._core.blas import one_blas_thread
from sublinear._core.kernel_choice import KeptColumns, kernel_rows, least_spread
from sublinear._core.kernel_objective import KernelObjective
from sublinear._core.kernel_rows import CallableRows, ExactRows, PrecomputedRows, check_square
from sublinear._core.kernels import KERNELS
from sublinear._drive import CONTRADICTION, LIMITS
from sublinear._fit_method import restored_after_errors
from sublinear._kernel_machines.memory import PANEL, KernelMemory
from sublinear._kernel_machines.support import best_on_span, nearest_span
from sublinear._kernel_machines.training import (
    FittedKernel,
    KernelTraining,
    alike,
    check_coefficients,
    check_kernel_shape,
    checked_rounding,
    checked_square,
    gamma_value,
    loses_scores,
    told_apart,
)
from sublinear._threads import effective_threads
from sublinear._validation import (
    OUT_OF_RANGE,
    RowNumbers,
    check_choice,
    check_flag,
    check_number,
    check_rows,
    check_sample_weight,
    check_training_data,
    csr_structure,
    dense_product,
)

FEW_ROWS = 16  # of X; of more, panels of X take no longer
MOST_KEPT = 2**24  # values of support vectors in panels, which other predictions take in parts
QUICK_ROWS = 32  # of dual_coef_, whose products take as long as kernel values of one example
INDEFINITE = (
    "dual values exceed the objective by far more than rounding does, so the kernel is probably "
    "not positive semi-definite",
    "choose other parameters of the kernel, or another kernel",
)


@dataclass(frozen=True)
class Reduction:
    """What `max_support` took away.

    Attributes
    ----------
    n_support : int
        Support vectors before.
    primal : float
        The objective before; that of the model returned is ``result_.primal``.

    Examples
    --------
    >>> from sublinear import KernelSDCAClassifier
    >>> from sublinear.datasets import make_sparse_classification
    >>> X, y = make_sparse_classification(200, 100, random_state=0)
    >>> model = KernelSDCAClassifier(max_support=20, random_state=0).fit(X, y)
    >>> model.reduction_.n_support > len(model.support_) == 20
    True
    """

    n_support: int
    primal: float


class KernelModel(CertifiedModel):
    """What kernel machines share: kernels, support vectors, prediction."""

    _unit = "rounds"
    _is_exact = False  # whether predictions need kernel values in float64
    _spread = 0.0  # of the support vectors' images at least, 0 where it is not known
    _lacking = 0.0  # bytes of a factor or a square, for which there was no room
    _panels = None  # SupportPanels; None for models pickled by a version without

    @property
    def _easier(self):
        advice = "scale the features, or lower C"
        if self._lacking:
            limit = self._memory.limit_for(self._lacking)
            advice = f"scale the features, lower C, or raise memory_limit to {limit} bytes"
        if self._is_exact_enough:
            return advice
        return f"{advice}; rounding of kernel values alone may keep the gap at {self._rounding:.1e}"

    @property
    def _is_exact_enough(self):
        """Whether rounding of kernel values leaves room for `tol`."""
        return self._rounding <= self.tol / 2

    def _warn_if_limited(self, limits):
        is_indefinite = self._is_exact_enough and not self._fitted_kernel.is_definite
        no_certificate = INDEFINITE if is_indefinite else (SPOILT, None)
        warn_if_limited(self, limits, self._easier, no_certificate)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    def _check_parameters(self):
        super()._check_parameters()
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, (*KERNELS, "precomputed"))
        check_kernel_shape(self)
        check_number("C", self.C, low=0, open_low=True)
        check_flag("penalize_intercept", self.penalize_intercept)
        check_number("max_support", self.max_support, low=1, integer=True, optional=True)

    def _check_data(self, X, y, **options):
        if self.kernel == "precomputed" and sp.issparse(X):
            raise ValueError('kernel="precomputed" needs a dense matrix: convert it by X.toarray()')
        return check_training_data(self, X, y, **options)

    @property
    def _memory(self):
        check_number("memory_limit", self.memory_limit, low=1, integer=True, optional=True)
        kernel = self._fitted_kernel
        rank = kernel.most_rank(self.n_features_in_) + 1  # of an intercept with a penalty
        return KernelMemory(self.memory_limit, kernel.is_given, rank)

    def _row_numbers(self, X, weights):
        """Return the RowNumbers of rows with weight; of all, if there is no room for copies."""
        n_bytes = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
        has_room = n_bytes <= KernelMemory(self.memory_limit, False).half
        return RowNumbers(weights if has_room and self.kernel != "precomputed" else None)

    def _training(self, X, y, targets, weights, sample_weight, subsets=None):
        """Return the KernelTraining for checked data."""
        metadata = metadata_of(sample_weight)
        gamma = None
        if self.kernel in KERNELS:  # class_weight leaves gamma as it is
            gamma = gamma_value(self.gamma, X, check_sample_weight(sample_weight, X))
        self._fitted_kernel = FittedKernel.of(self, gamma)
        memory, rows = self._memory, None
        if self._fitted_kernel.is_precomputed:
            check_square(X)  # before parts are taken of it
        if subsets is None:
            rows = self._square(X, memory.half, effective_threads(self.n_jobs))
        return KernelTraining(
            X, y, metadata, None, targets, weights, rows=rows, subsets=subsets, memory=memory
        )

    def _square(self, X, memory, n_threads=1):
        """Return the KernelRows of X with itself."""
        kernel = self._fitted_kernel
        if kernel.is_precomputed:
            return checked_square(PrecomputedRows(X))
        if kernel.is_given:
            return checked_square(CallableRows(kernel.name, X))
        rows = kernel_rows(kernel.function(), X, memory=memory, n_threads=n_threads)
        return checked_square(told_apart(rows))

    def _part(self, training, chosen, n_at_once):
        """Return the KernelRows of some of the examples, as one of so many at a time."""
        if training.subsets is None:
            return training.rows
        X = training.X[chosen]
        if self._fitted_kernel.is_precomputed:
            X = X[:, chosen]
        return self._square(X, training.memory.half / n_at_once)

    def _most_at_once(self, training):
        """As many as `memory_limit` leaves room for."""
        return training.most_at_once

    def _objective(self, training, k, n_jobs, rows=None):
        """Return the KernelObjective of problem k, on the KernelRows if they are there already."""
        chosen = slice(None) if training.subsets is None else training.subsets[k]()
        if rows is None:
            rows = self._part(training, chosen, min(n_jobs, training.most_at_once))
        weights = np.ones(rows.n_rows) if training.weights is None else training.weights[chosen]
        return KernelObjective(
            rows,
            training.targets[k](),
            self._make_loss(),
            float(self.C) * weights,
            shift=self._shift(),
            free_intercept=self.fit_intercept and not self.penalize_intercept,
            n_threads=n_jobs if len(training.targets) == 1 else 1,
            memory=training.memory.matrix,
            # alone, a problem has half of the memory to itself, and the main thread, which alone
            # hears Ctrl-C amid an iteration
            square_memory=training.memory.half if len(training.targets) == 1 else 0.0,
        )

    def _shift(self):
        """What is added to the kernel for an intercept that is penalised."""
        scaling = self.intercept_scaling if self.fit_intercept and self.penalize_intercept else 0
        return float(scaling) * float(scaling)

    def _adopt(self, other, training):
        super()._adopt(other, training)
        self._fitted_kernel = other._fitted_kernel

    def _keep(self, solver):
        objective = solver.objective
        return {
            "rounding": objective.relative_rounding,
            "is_exact": objective.is_exact,
            "deviation": objective.rows.deviation,
        }

    def _note_kept(self, outcomes, training):
        """Find what may have kept the gap open, and which kernel values predictions need."""
        known = [outcome.kept for outcome in outcomes if outcome.kept]
        if training.solvers is not None:
            known = [self._keep(solver) for solver in training.solvers.values()]
        self._rounding = max((kept["rounding"] for kept in known), default=0.0)
        self._lacking = max((kept.get("lacking", 0.0) for kept in known), default=0.0)
        deviation = max((kept["deviation"] for kept in known), default=0.0)
        self._is_exact = any(kept["is_exact"] for kept in known) or loses_scores(
            deviation, self.dual_coef_, self._size_of_scores(training)
        )

    def _size_of_scores(self, training):
        return 1.0  # a margin

    def _starting_coefficients(self, training, k):
        """The coefficients of the last fit, if they can serve as a start."""
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        if self.reduction_ is not None:
            return None  # coefficients that the solver has not been at, nor may be duals
        if self._n_rows_fit != training.n_given or len(self.intercept_) != len(training.targets):
            return None
        if self.dual_coef_.shape[0] != self._rows_of_dual(len(training.targets)):
            return None  # of another multi_class
        return self._coefficients(training, k)

    def _rows_of_dual(self, n_problems):
        """How many rows `dual_coef_` has."""
        return n_problems

    def _coefficients(self, training, k):
        """The coefficients of all examples of problem k."""
        coefficients = np.zeros(self._n_rows_fit)
        for chosen, row in self._places(k):
            coefficients[self.support_[chosen]] = self.dual_coef_[row, chosen]
        coefficients = training.given.part(coefficients)
        return coefficients if training.subsets is None else coefficients[training.subsets[k]()]

    def _set_model(self, models, training):
        support, self.dual_coef_ = self._lay_out(models, training)
        self.support_ = training.given.numbers(support)
        self.intercept_ = np.array([model[-1] for model in models])
        precomputed = self._fitted_kernel.is_precomputed
        self.support_vectors_ = np.empty((0, 0)) if precomputed else training.X[support]
        self._is_exact, self._spread = True, 0.0  # until it is known what rounding does
        self._panels = SupportPanels()

    def _store(self, outcomes, training, seconds):
        """Set the fitted attributes."""
        models = [outcome.model for outcome in outcomes]
        check_coefficients(models)
        self._set_model(models, training)
        self.reduction_ = None
        self._n_rows_fit = training.n_given
        self._describe(outcomes, training, seconds)
        too_many = self.max_support is not None and len(self.support_) > self.max_support
        if too_many and self.result_.status != "interrupted":
            with restored_after_errors(self):
                self._describe(self._reduce(outcomes, training), training, seconds)

    def _describe(self, outcomes, training, seconds):
        """Set what follows from coefficients and outcomes."""
        if len(self.support_) and not self._fitted_kernel.is_given:
            self._spread = least_spread(self._fitted_kernel.function(), self.support_vectors_)
        self._note_kept(outcomes, training)
        self._report(outcomes, seconds)

    def _reduce(self, outcomes, training):
        """Keep `max_support` support vectors; return the outcomes with the values of the models."""
        n_support, shift = len(self.support_), self._shift()
        support, kept = training.given.places(self.support_), []
        for start, end in pairwise([0, *self._groups()[0].tolist()]):
            if start == end:
                continue
            group = slice(start, end)
            examples = support[group]
            X = training.X[examples]
            if self._fitted_kernel.is_precomputed:
                X = X[:, examples]
            rows = self._square(X, training.memory.half)
            first, last = (self.max_support * place // n_support for place in (start, end))
            chosen = nearest_span(
                partial(shifted_block, rows, shift),
                rows.diagonal + shift,
                self.dual_coef_[:, group],
                last - first,
            )
            kept.append(start + chosen)
        self._keep_support(np.concatenate(kept))
        self.reduction_ = Reduction(n_support, sum(outcome.result.primal for outcome in outcomes))
        return [
            replace(outcome, result=self._refit(outcome.result, training, k))
            for k, outcome in enumerate(outcomes)
        ]

    def _keep_support(self, kept):
        """Forget the support vectors that are not among `kept`, in order."""
        self.support_, self.dual_coef_ = self.support_[kept], self.dual_coef_[:, kept]
        if not self._fitted_kernel.is_precomputed:
            self.support_vectors_ = self.support_vectors_[kept]
        self.intercept_ = self.intercept_.copy()  # an error brings back the one before

    def _refit(self, result, training, k):
        """Find the best coefficients of problem k on its support vectors; return its Result."""
        objective = self._objective(training, k, effective_threads(self.n_jobs))
        places = list(self._places(k))
        support = training.given.places(self.support_)
        examples = np.concatenate([support[chosen] for chosen, _ in places])
        if training.subsets is not None:
            examples = np.searchsorted(training.subsets[k](), examples)
        values, margins = best_on_span(objective, examples, self.tol)
        for chosen, row in places:
            count = len(support[chosen])
            self.dual_coef_[row, chosen], values = values[:count], values[count:]
        model, primal = objective.evaluated(self._coefficients(training, k), margins)
        self.intercept_[k] = model[-1]
        is_bound = result.dual <= primal * (1 + CONTRADICTION)
        dual = min(result.dual, primal) if is_bound else -np.inf
        refitted = replace(result, primal=primal, dual=dual, gap=primal - dual)
        is_within = refitted.relative_gap <= self.tol
        if result.status == "converged" and not is_within:
            return replace(refitted, status="reduced")
        if result.status in LIMITS and is_within:
            return replace(refitted, status="converged")
        return refitted

    def _places(self, k):
        """Yield (support vectors, row of dual_coef_) that hold the coefficients of problem k."""
        yield slice(None), k

    def _lay_out(self, models, training):
        """Return the support vectors and dual_coef_ of models that end with the intercept."""
        coefficients = np.stack(models)[:, :-1]
        support = np.flatnonzero(coefficients.any(axis=0))
        return support, np.ascontiguousarray(coefficients[:, support])

    def _groups(self):
        """Return where groups of support vectors end, and the problems of their coefficients.

        Returns
        -------
        ends : ndarray of shape (n_groups,)
        problems : ndarray of shape (n_groups, n_rows), n_rows that of dual_coef_
        """
        return np.array([len(self.support_)]), np.arange(len(self.intercept_))[np.newaxis]

    @property
    def coef_(self):
        """Weights of the features, of shape (n_problems, n_features); for kernel="linear" alone."""
        check_is_fitted(self)
        if self._fitted_kernel.name != "linear":
            raise AttributeError('a model has coef_ only if it was fitted with kernel="linear"')
        return self._coef(PANEL)

    def _coef(self, step):
        """Put `coef_` together, from so many support vectors at a time."""
        coef = np.zeros((len(self.intercept_), self.n_features_in_))
        ends, problems = self._groups()
        with one_blas_thread():
            for start, end, places in zip([0, *ends[:-1]], ends, problems, strict=True):
                for first in range(start, end, step):
                    part = slice(first, min(end, first + step))
                    products = self.dual_coef_[:, part] @ self.support_vectors_[part]
                    for place, product in zip(places, products, strict=True):
                        coef[place] += product
        return coef

    def _scores(self, X):
        """Return f(x_i) + intercept for every row and problem, (n_rows, n_problems)."""
        check_is_fitted(self)
        precomputed = self._fitted_kernel.is_precomputed
        X = check_rows(self, X, accept_sparse=False if precomputed else "csr")
        if sp.issparse(X):
            csr_structure(X)  # SciPy does not look whether the indices exist
        if self._fitted_kernel.name == "linear" and self._weights_pay:
            return self._products(X) + self.intercept_
        n_rows, n_support = X.shape[0], len(self.support_)
        margins = np.zeros((len(self.intercept_), n_rows))
        if n_support == 0:
            return margins.T + self.intercept_
        support, shown = alike(X if precomputed else self.support_vectors_, X, self._fitted_kernel)
        stored = max(1, X.nnz // n_rows if sp.issparse(support) else X.shape[1])
        order, n_threads = np.arange(n_support), effective_threads(self.n_jobs)
        step, rows_step = self._memory.parts_of_prediction(
            stored, len(margins), n_support, n_threads
        )
        ends, problems = self._groups()
        if (few := self._few_rows(X, rows_step)) is not None:
            few.add_column_products(self.dual_coef_, margins, ends, problems, n_threads)
            return margins.T + self.intercept_
        for start in range(0, n_rows, step):
            rows = self._prediction_rows(support, shown(X[start : start + step]))
            part = margins[:, start : start + step]
            for first in range(0, n_support, rows_step):
                chosen = slice(first, min(n_support, first + rows_step))
                rows.add_products(
                    order[chosen],
                    self.dual_coef_[:, chosen],
                    part,
                    np.clip(ends, first, chosen.stop) - first,
                    problems,
                    n_threads,
                )
        margins += self.intercept_[:, np.newaxis]
        return margins.T

    @property
    def _weights_pay(self):
        """Whether `coef_` is put together in about the time of kernel values, and in memory.

        Whatever is predicted: kernel values would be rounded otherwise.
        """
        vectors, n_weights = self.support_vectors_, len(self.intercept_) * self.n_features_in_
        stored = vectors.nnz if sp.issparse(vectors) else vectors.size
        is_quick = len(self.dual_coef_) <= QUICK_ROWS and n_weights <= stored
        return is_quick and 16 * n_weights <= self._memory.half  # with the products of a group

    def _products(self, X):
        """Return X @ coef_.T, (n_rows, n_problems)."""
        n_problems = len(self.intercept_)
        step, rows_step = self._memory.parts_of_prediction(X.shape[1], n_problems, 1, 1)
        weights, products = self._coef(rows_step).T, np.empty((X.shape[0], n_problems))
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, X.shape[0], step):  # float32 is copied as float64
                rows = X[start : start + step]
                products[start : start + step] = dense_product(rows, weights)
        if not np.isfinite(products).all():
            raise ValueError(OUT_OF_RANGE)
        return products

    def _few_rows(self, X, rows_step):
        """The KernelRows between few dense rows and the support vectors, which have panels then.

        None where `_prediction_rows` is as quick, or would take support vectors part by part.
        """
        support, kernel = self.support_vectors_, self._fitted_kernel
        if kernel.is_given or kernel.name == "linear" or self._is_exact:
            return None
        if sp.issparse(X) or sp.issparse(support) or len(X) > FEW_ROWS:
            return None
        if (len(X) - 1) * len(self.dual_coef_) > X.shape[1]:  # sums take longer than values
            return None
        if len(support) > rows_step or support.size > MOST_KEPT or self._panels is None:
            return None
        return self._panels.columns(kernel, support, self._spread).rows(X, support)

    def _prediction_rows(self, support, X):
        """The KernelRows between the support vectors and the rows of X."""
        kernel = self._fitted_kernel
        if kernel.is_precomputed:
            return ExactRows(PrecomputedRows(X[:, self.support_].T, False))
        if kernel.is_given:
            return ExactRows(CallableRows(kernel.name, support, X))
        rows = kernel_rows(kernel.function(), support, X, memory=0, spread=self._spread)
        return checked_rounding(ExactRows(rows) if self._is_exact else told_apart(rows))


class SupportPanels:
    """The support vectors of a model as KeptColumns: from a first prediction of few rows on.

    They are read-only then, as panels would not change with them. Copies and pickles have none.
    """

    def __init__(self):
        self._kept = (None, None, None)

    def __reduce__(self):
        return SupportPanels, ()

    @property
    def kept(self):
        """The KeptColumns of the last such prediction, or None."""
        return self._kept[-1]

    def columns(self, kernel, support, spread):
        """Return the KeptColumns of support vectors."""
        source, settings, columns = self._kept
        if source is not support or settings != (kernel, spread):
            support.flags.writeable = False
            columns = KeptColumns(kernel.function(), support, spread)
            self._kept = support, (kernel, spread), columns
        return columns


def shifted_block(rows, shift, chosen):
    """Return rows of a kernel matrix with a constant added."""
    return rows.block(chosen)[:, : rows.n_columns] + shift
