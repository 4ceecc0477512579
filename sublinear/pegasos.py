"""Linear models by sub-gradient steps: PegasosClassifier and PegasosRegressor.

Both minimise

    alpha / 2 |w|^2 + sum_i s_i l(<w, x_i>, y_i) / sum_i s_i

and report a certificate in ``result_``: the primal value of the returned model, a dual value, and
the gap between them, which bounds how far the model is from optimal.
"""

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.utils.metaestimators import available_if

from sublinear._archive import plain_seeds, seeds_of
from sublinear._callbacks import with_callbacks
from sublinear._certified_model import problem_mark
from sublinear._core.best_constant import PIECEWISE_LINEAR
from sublinear._core.joint_losses import JOINT_LOSSES
from sublinear._core.joint_objective import JointObjective
from sublinear._core.states import parts_of, prefixed
from sublinear._core.strata import Strata
from sublinear._documentation import with_parameters
from sublinear._drive import Limits
from sublinear._fit_method import fit_method
from sublinear._fitted_parameters import fitted_with, note_parameters
from sublinear._labels import (
    check_cost,
    check_known_labels,
    class_codes,
    declared_classes,
    find_classes,
)
from sublinear._linear_model import (
    COMMON_PARAMETERS,
    LinearClassifier,
    LinearModel,
    LinearRegressor,
)
from sublinear._solvers.joint_pegasos import JointPegasos
from sublinear._solvers.pegasos import BIASES, LEARNING_RATES, Pegasos, first_pace
from sublinear._stream import StreamFit
from sublinear._validation import (
    check_batch_fits,
    check_choice,
    check_flag,
    check_number,
    check_step_parameters,
    check_training_data,
    examples_of_batch,
)

MANY_PASSES = 'another bias: bias="search" goes over all examples many times'
INTERCEPT_SETTINGS = ("fit_intercept", "intercept_scaling", "bias")  # that a stream may not change

_PEGASOS_PARAMETERS = """\
batch_size : int or "all", default=1
        Examples per step; "all" makes it a sub-gradient method without randomness.
    sampling : {"shuffle", "fixed", "replacement", "subsets"}, default="shuffle"
        A new permutation of the examples for every epoch; one permutation for all; independent
        draws; an independent subset for every batch. The first two take fewer epochs. `fit` draws
        examples in proportion to their weights; with batch_size="all", and over streams, weights
        are factors of the steps instead.
    projection : bool, default=False
        Project w onto the ball of radius sqrt(mean loss at 0 / alpha), which holds the optimum.
        Losses without bounded derivatives need it.
    average : {"tail", "mean", "last", "random"}, default="tail"
        The model: the mean of the iterates since step 2^k, the largest power of two that is at most
        half the number of steps; the mean of all; the last one alone; of two iterates drawn at
        random at every certificate, and of those before, the one with the least objective.
    learning_rate : {"pegasos", "norma", "constant"}, default="pegasos"
        The size of step t: 1 / (alpha t); eta0 / (alpha sqrt(t)); eta0. The other two are for
        comparison: they need a good eta0 and more epochs, and a constant never settles.
    eta0 : float, default=None
        For "norma" at most 1, None meaning sqrt(1/2), the best for long fits; for "constant" at
        most 1 / alpha, and needed.
    bias : {"feature", "subgradient", "batch", "search"}, default="feature"
        How the intercept b is found, and which objective has the certificate:

        - "feature": the weight of a constant feature, penalised like the others:
          alpha / 2 (|coef|^2 + (b / intercept_scaling)^2) + mean loss.
        - "subgradient": steps of its own, for alpha / 2 |coef|^2 + mean loss. They converge slowly.
        - "batch": in every step that of least loss on the batch; at a certificate, that of least
          loss on all examples. For large batches and piecewise linear losses. With
          batch_size="all" it minimises alpha / 2 |coef|^2 + mean loss; smaller batches minimise the
          expectation of min_b over a batch instead, and the gap of the former, which is reported,
          need not vanish.
        - "search": fixed for some epochs at a time, then moved towards the minimum over b of
          min over coef of alpha / 2 |coef|^2 + mean loss. Every fit starts from the one before.

        Without a penalty `intercept_scaling` has no effect.
    pack : bool or "auto", default="auto"
        True: work on a copy of the rows, which must be sparse, in which a row's values, rounded to
        float32, and columns lie together: 8 bytes per stored entry and 32 per row. Certificates
        use X itself. "auto": copy dense X that lies column by column, as that of a data frame does,
        unless it is a mapped file; nothing else, as fits are about as fast without, since rows are
        prefetched. False: no copy.
"""


class BiasTreatment:
    """What sub-gradient steps can do about the intercept, by the parameter `bias`."""

    def _treatment(self):
        return self.bias if self.fit_intercept else "feature"

    def _penalizes_intercept(self):
        return self._treatment() == "feature"

    def _constant(self):
        return super()._constant() if self._penalizes_intercept() else 1.0

    def _check_slopes(self):
        """Raise ValueError where derivatives that are not bounded need a projection."""
        if self._losses[self.loss].lipschitz:
            return
        if not self.projection:
            raise ValueError(
                f"the derivatives of loss={self.loss!r} are not bounded: it needs projection=True"
            )
        if self._treatment() == "subgradient":
            raise ValueError(
                f'loss={self.loss!r} needs bias="feature" or "search": projection does not bound '
                "an intercept of its own"
            )


class _PegasosModel(StreamFit, BiasTreatment, LinearModel):
    """Estimators that take sub-gradient steps."""

    def _check_parameters(self):
        super()._check_parameters()
        check_flag("projection", self.projection)
        check_step_parameters(self)
        check_flag("pack", self.pack, auto=True)
        check_choice("learning_rate", self.learning_rate, LEARNING_RATES)
        if self.eta0 is not None:
            check_number("eta0", self.eta0, low=0, open_low=True)
        elif self.learning_rate == "constant":
            raise ValueError('learning_rate="constant" needs eta0, the size of all steps')
        first_pace(self.learning_rate, self._first_step(), self.alpha)
        check_choice("bias", self.bias, BIASES)
        self._check_best_bias()
        self._check_slopes()

    def _check_best_bias(self):
        if self._treatment() == "batch":
            if self.loss not in PIECEWISE_LINEAR:
                known = ", ".join(repr(name) for name in self._losses if name in PIECEWISE_LINEAR)
                raise ValueError(f'bias="batch" needs a piecewise linear loss: {known}')
            if self.batch_size == 1:
                raise ValueError(
                    'bias="batch" needs large batches: with batch_size=1 the intercept would fit '
                    "every single example"
                )

    def _first_step(self):
        if self.learning_rate == "norma" and self.eta0 is None:
            return np.sqrt(0.5)
        return self.eta0

    def _draw_by_weight(self, training, labels=None):
        """Let examples be drawn in proportion to their weights; returns the Training.

        `labels` are numbers that tell examples apart, by default the targets of the one problem.
        """
        if self.batch_size != "all":  # where weights are factors, and nothing is random
            labels = training.targets[0]() if labels is None else labels
            training.plan = Strata(
                training.matrix, labels.astype(float, copy=False), training.weights, self.batch_size
            )
        return training

    def _solver(self, training, k, random, n_jobs):
        objective = self._make_objective(training, k, n_jobs)
        solver = self._make_solver(objective, random, training.plan)
        if self._states is not None and self._states[k] is not None:
            solver.resume(self._states[k])
        return solver

    def _make_solver(self, objective, random, strata):
        return Pegasos(
            objective,
            random,
            sampling=self.sampling,
            batch_size=examples_of_batch(self.batch_size, objective.matrix.n_rows),
            projection=self.projection,
            average=self.average,
            learning_rate=self.learning_rate,
            eta0=self._first_step(),
            bias=self._treatment(),
            pack=self._packs(),
            strata=strata,
        )

    def _store(self, outcomes, training, seconds):
        self._states = [outcome.kept for outcome in outcomes]
        self._fitted_treatment = self._intercept_settings()
        super()._store(outcomes, training, seconds)

    def _keep(self, solver):
        return solver.state()

    def _begin_fit(self, training, sample_weight):
        """Forget the last fit, unless this one can go on from it.

        It has to be of the same problem: steps that are small by now would not lead to another one.
        """
        before = getattr(self, "_mark", None)
        # a search goes on from bounds, which hold for no other rows
        every_row = self._treatment() == "search"
        self._mark = problem_mark(self, training.matrix, training.y, sample_weight, every_row)
        if not (self.warm_start and self._mark == before):
            self._states = None
        self._stream_seeds = None

    def _intercept_settings(self):
        return tuple(getattr(self, name) for name in INTERCEPT_SETTINGS)

    def _takes_streams(self):
        if self._treatment() == "search":
            raise AttributeError(f"partial_fit needs {MANY_PASSES}")
        return True

    def _fit_source(self, stream, classes, checkpoint):
        if self._treatment() == "search":
            raise ValueError(f"fit_stream needs {MANY_PASSES}")
        super()._fit_source(stream, classes, checkpoint)

    def _goes_on(self):
        goes_on = super()._goes_on()
        if goes_on and self._fitted_treatment != self._intercept_settings():
            raise ValueError(
                "fit_intercept, intercept_scaling and bias must not change between calls of "
                "partial_fit"
            )
        return goes_on

    @with_callbacks
    def _learn_block(self, block, first, options):
        if first:
            super()._learn_block(block, first, options)
        else:  # as partial_fit, without the checks that the Stream has made
            self._solve_block(self._training_of(block), first)

    def _solve_block(self, training, first):
        if first:
            self._states = None
        else:
            training.earlier_dtype = self.coef_.dtype
        self._mark = None
        self._seed_stream()
        return self._solve(training, Limits(0, 1, certify=False))

    def _stream_state(self):
        state = {"seeds": plain_seeds(self._stream_seeds)}
        for k, kept in enumerate(self._states):
            state |= prefixed(k, {n: kept[n] for n in kept if n != "coefficients"})
        return state

    def _set_stream_state(self, state):
        self._states = self._stream_seeds = self._mark = None
        if state is None:
            return
        self._fitted_treatment = self._intercept_settings()  # the file's parameters are the same
        note_parameters(self)
        self._stream_seeds = seeds_of(state)
        self._states = parts_of(state)
        for part in self._states:
            part["coefficients"] = np.zeros(0)  # those of the last block are not kept


@with_parameters(**COMMON_PARAMETERS, pegasos=_PEGASOS_PARAMETERS)
class PegasosClassifier(_PegasosModel, LinearClassifier):
    """Linear classification by Pegasos: stochastic sub-gradient descent with steps 1 / (alpha t).

    Minimises alpha / 2 |w|^2 + the weighted mean of the loss. The cost of a given accuracy does not
    depend on the number of examples; for small gaps SDCAClassifier is faster.

    Parameters
    ----------
    loss : {"hinge", "smoothed_hinge", "logistic", "squared_hinge"}, default="hinge"
        As in SDCAClassifier. "squared_hinge", whose derivatives are not bounded, needs
        projection=True, and bias="feature" or "search".
    %(alpha)s
    %(smoothing)s
    %(pegasos)s
    %(intercept)s
    %(class_weight)s
    multi_class : {"ovr", "joint"}, default="ovr"
        "ovr": one model for each class, that class against the rest. "joint": one model of all
        classes, with one weight vector w_r for each. Its losses are, with z_r = <w_r, x> +
        intercept_r: "hinge", max_r cost(y, r) + z_r - z_y, and "logistic",
        log sum_r exp(z_r - z_y); it penalises alpha / 2 sum_r |w_r|^2. It takes one thread,
        learning_rate="pegasos", bias="feature", unpacked rows, and n_samples * n_classes numbers
        for its certificate.
    cost : array-like of shape (n_classes, n_classes), default=None
        For multi_class="joint" and loss="hinge": cost[i, j] is that of predicting classes_[j] for
        an example of classes_[i]; not negative, 0 on the diagonal. None: 1 off the diagonal.
    %(limits)s
    %(run)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Epochs; after `fit_stream` one for every block with weight.
    n_features_in_ : int
    %(feature_names)s
    result_ : Result
        After `partial_fit` it speaks of that block, and its gap is unknown (inf). After
        `fit_stream` so is the gap; n_iter, accesses and seconds are sums over the blocks of the
        call, and of those before a checkpoint that it went on from.
    %(stream_summary)s

    See Also
    --------
    SDCAClassifier : dual coordinate ascent on the same objective.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 127, 2011, Figures 1 and 2. The tail average: Takac, Bijral, Richtarik,
    Srebro, "Mini-batch primal and dual methods for SVMs", ICML 2013, Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sublinear import PegasosClassifier
    >>> X, y = make_classification(random_state=0)
    >>> model = PegasosClassifier(alpha=0.1, tol=0.05, random_state=0).fit(X, y)
    >>> model.result_.status
    'converged'
    """

    def __init__(
        self,
        loss="hinge",
        *,
        alpha=1e-4,
        smoothing=1.0,
        batch_size=1,
        sampling="shuffle",
        projection=False,
        average="tail",
        learning_rate="pegasos",
        eta0=None,
        bias="feature",
        pack="auto",
        fit_intercept=True,
        intercept_scaling=1.0,
        class_weight=None,
        multi_class="ovr",
        cost=None,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.alpha = alpha
        self.smoothing = smoothing
        self.batch_size = batch_size
        self.sampling = sampling
        self.projection = projection
        self.average = average
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.bias = bias
        self.pack = pack
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.cost = cost
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def _check_parameters(self):
        super()._check_parameters()
        check_choice("multi_class", self.multi_class, ("ovr", "joint"))
        if self.multi_class == "joint":
            self._check_joint_parameters()
        if self.cost is not None and (self.multi_class, self.loss) != ("joint", "hinge"):
            raise ValueError('cost needs multi_class="joint" and loss="hinge"')

    def _check_joint_parameters(self):
        check_choice("loss", self.loss, JOINT_LOSSES)
        for name, needed in (("learning_rate", "pegasos"), ("bias", "feature")):
            if getattr(self, name) != needed:
                raise ValueError(f'multi_class="joint" needs {name}="{needed}"')
        if self._packs():
            raise ValueError('multi_class="joint" does not pack rows: use pack="auto" or False')

    def _targets(self, y):
        if self.multi_class == "joint":
            return [lambda: class_codes(y, self.classes_)]
        return super()._targets(y)

    def _is_joint(self):
        """Tell whether the fit, once it has begun, or the last one is of all classes at once."""
        return fitted_with(self, "multi_class") == "joint"

    def _make_objective(self, training, k, n_jobs):
        if not self._is_joint():
            return super()._make_objective(training, k, n_jobs)
        n_classes = len(self.classes_)
        costs = (check_cost(self.cost, n_classes),) if self.loss == "hinge" else ()
        loss = JOINT_LOSSES[self.loss](n_classes, *costs)
        targets = training.targets[k]()
        return JointObjective(training.matrix, targets, loss, self.alpha, training.weights)

    def _make_solver(self, objective, random, strata):
        if not self._is_joint():
            return super()._make_solver(objective, random, strata)
        return JointPegasos(
            objective,
            random,
            sampling=self.sampling,
            batch_size=examples_of_batch(self.batch_size, objective.matrix.n_rows),
            projection=self.projection,
            average=self.average,
            strata=strata,
        )

    def _coefficients(self, models, constant, dtype):
        if self._is_joint():
            models = list(models[0].T)
            if len(models) == 2:  # their sum is 0
                models = [models[1] - models[0]]
        return super()._coefficients(models, constant, dtype)

    def _feature_weights(self, model):
        return model.T if self._is_joint() else model

    def _problem_name(self, k):
        return type(self).__name__ if self._is_joint() else super()._problem_name(k)

    def _probabilities(self, scores):
        if self._is_joint():
            return softmax(scores, axis=1)
        return super()._probabilities(scores)

    def _log_probabilities(self, scores):
        if self._is_joint():
            return log_softmax(scores, axis=1)
        return super()._log_probabilities(scores)

    @fit_method
    @with_parameters()
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        %(rows)s
        %(multiclass_labels)s
        %(sample_weight)s

        Returns
        -------
        self : PegasosClassifier

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        X, y = check_training_data(self, X, y)
        check_batch_fits(self.batch_size, X.shape[0])
        self.classes_ = find_classes(y)
        training = self._class_training(X, y, sample_weight)
        self._begin_fit(training, sample_weight)
        labels = None if len(training.targets) == 1 else class_codes(y, self.classes_)
        return self._solve(self._draw_by_weight(training, labels), self._limits())

    @available_if(_PegasosModel._takes_streams)
    @fit_method
    @with_parameters()
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Take one epoch over a batch of examples, going on from the present model.

        Step sizes go on falling as 1 / (alpha t) over all calls: the model minimises the objective
        over the stream of examples. No certificate is computed; tol, max_iter and max_accesses are
        for `fit`.

        Parameters
        ----------
        %(rows)s
        %(multiclass_labels)s
        %(all_classes)s
        sample_weight : array-like of shape (n_samples,), default=None
            They count relative to their mean in this batch, as `class_weight` does: alone, an
            example has the weight 1. "balanced" balances every batch by itself.

        Returns
        -------
        self : PegasosClassifier

        Raises
        ------
        ValueError
            For parameters or data that make no sense, or rows that do not continue those before;
            the message says what to do. The estimator is left as it was.
        """
        self._check_parameters()
        first = not self._goes_on()
        X, y = check_training_data(self, X, y, reset=first)
        if not first and fitted_with(self, "multi_class") != self.multi_class:
            raise ValueError("multi_class must not change between calls of partial_fit")
        self.classes_ = declared_classes(y, classes, None if first else self.classes_)
        return self._solve_block(self._class_training(X, y, sample_weight), first)

    def _training_of(self, block):
        check_known_labels(block.y, self.classes_)
        return self._class_training(*block)


@with_parameters(**COMMON_PARAMETERS, pegasos=_PEGASOS_PARAMETERS)
class PegasosRegressor(_PegasosModel, LinearRegressor):
    """Linear regression by Pegasos: stochastic sub-gradient descent with steps 1 / (alpha t).

    Minimises alpha / 2 |w|^2 + the weighted mean of the loss. The cost of a given accuracy does not
    depend on the number of examples; for small gaps SDCARegressor is faster.

    Parameters
    ----------
    loss : {"epsilon_insensitive", "absolute", "huber", "squared"}, default="epsilon_insensitive"
        As in SDCARegressor. "squared", whose derivatives are not bounded, needs projection=True,
        and bias="feature" or "search".
    %(alpha)s
    %(zone)s
    %(pegasos)s
    %(intercept)s
    %(limits)s
    %(run)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Of the dtype of X.
    intercept_ : float
    n_iter_ : int
        Epochs; after `fit_stream` one for every block with weight.
    n_features_in_ : int
    %(feature_names)s
    result_ : Result
        After `partial_fit` it speaks of that block, and its gap is unknown (inf). After
        `fit_stream` so is the gap; n_iter, accesses and seconds are sums over the blocks of the
        call, and of those before a checkpoint that it went on from.
    %(stream_summary)s

    See Also
    --------
    SDCARegressor : dual coordinate ascent on the same objective.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 127, 2011, sections 5 and 6.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sublinear import PegasosRegressor
    >>> X, y = make_regression(n_features=5, n_informative=5, random_state=0)
    >>> model = PegasosRegressor(alpha=0.1, tol=0.05, random_state=0).fit(X, y)
    >>> model.result_.status
    'converged'
    """

    def __init__(
        self,
        loss="epsilon_insensitive",
        *,
        alpha=1e-4,
        epsilon=0.1,
        batch_size=1,
        sampling="shuffle",
        projection=False,
        average="tail",
        learning_rate="pegasos",
        eta0=None,
        bias="feature",
        pack="auto",
        fit_intercept=True,
        intercept_scaling=1.0,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.alpha = alpha
        self.epsilon = epsilon
        self.batch_size = batch_size
        self.sampling = sampling
        self.projection = projection
        self.average = average
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.bias = bias
        self.pack = pack
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    @fit_method
    @with_parameters()
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        %(rows)s
        %(numbers)s
        %(sample_weight)s

        Returns
        -------
        self : PegasosRegressor

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        X, y = check_training_data(self, X, y, y_numeric=True)
        check_batch_fits(self.batch_size, X.shape[0])
        training = self._number_training(X, y, sample_weight)
        self._begin_fit(training, sample_weight)
        return self._solve(self._draw_by_weight(training), self._limits())

    @available_if(_PegasosModel._takes_streams)
    @fit_method
    @with_parameters()
    def partial_fit(self, X, y, sample_weight=None):
        """Take one epoch over a batch of examples, going on from the present model.

        Step sizes go on falling over all calls: the model minimises the objective over the stream
        of examples. No certificate is computed; tol, max_iter and max_accesses are for `fit`.

        Parameters
        ----------
        %(rows)s
        %(numbers)s
        sample_weight : array-like of shape (n_samples,), default=None
            They count relative to their mean in this batch: alone, an example has the weight 1.

        Returns
        -------
        self : PegasosRegressor

        Raises
        ------
        ValueError
            For parameters or data that make no sense, or rows that do not continue those before;
            the message says what to do. The estimator is left as it was.
        """
        self._check_parameters()
        first = not self._goes_on()
        X, y = check_training_data(self, X, y, reset=first, y_numeric=True)
        return self._solve_block(self._number_training(X, y, sample_weight), first)

    def _training_of(self, block):
        return self._number_training(*block)
