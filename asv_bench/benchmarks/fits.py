"""Time, feature values read and memory of whole fits, ours beside scikit-learn's."""

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import HuberRegressor
from sklearn.svm import SVC, LinearSVC

from sublinear import (
    KernelSDCAClassifier,
    PegasosClassifier,
    SDCAClassifier,
    SDCARegressor,
    SequencePegasos,
    distributed,
)
from sublinear.datasets import make_tagged_sequences

from .problems import make_dense, make_sparse
from .solvers import (
    DEFAULTS,
    linear_svc,
    loosest_setting,
    optimum,
    pegasos,
    sdca,
    sgd,
    timed_fit,
    values_read,
)

ALPHA = 1e-3
GAMMA = 0.5
PROBLEMS = {
    "sparse": lambda: make_sparse(5000, 20_000, entries_per_row=40),
    "dense": lambda: make_dense(5000, 60),
}


class ToSuboptimality:
    """A fit at the loosest setting that brings the relative primal suboptimality below 1e-3."""

    params = [list(DEFAULTS), list(PROBLEMS)]
    param_names = ["solver", "problem"]
    timeout = 120

    def setup_cache(self):
        """Find P* and every solver's setting once."""
        found = {}
        for problem, make in PROBLEMS.items():
            X, y = make()
            lower_bound, _ = optimum(X, y, ALPHA, tol=1e-5)
            for name in DEFAULTS:
                setting = loosest_setting(name, X, y, ALPHA, lower_bound, seeds=(0,), patience=2.0)
                found[name, problem] = None if setting is None else setting.make(0)
        return found

    def setup(self, found, solver, problem):
        self.model = found[solver, problem]
        if self.model is None:
            # with this asv skips the combination
            raise NotImplementedError(f"{solver} does not get there")
        self.X, self.y = PROBLEMS[problem]()

    def time_fit(self, found, solver, problem):
        timed_fit(self.model, self.X, self.y)

    def track_values_read(self, found, solver, problem):
        timed_fit(self.model, self.X, self.y)
        return values_read(self.model, self.X)

    track_values_read.unit = "feature values"


class Hard:
    """Whole fits by methods of second order: columns of very different scales, or few wide rows."""

    problems = {
        "scales": lambda: make_dense(20_000, 50),
        "wide": lambda: make_dense(300, 5000),
    }
    params = [list(problems), ["hinge", "logistic", "squared_hinge", "smoothed_hinge"]]
    param_names = ["problem", "loss"]
    timeout = 120

    def setup(self, problem, loss):
        X, self.y = self.problems[problem]()
        self.X = 100 + X if problem == "wide" else X * np.logspace(-2, 3, X.shape[1])
        self.model = SDCAClassifier(loss, second_order=True, random_state=0)

    def time_fit(self, problem, loss):
        self.model.fit(self.X, self.y)

    def peakmem_fit(self, problem, loss):
        self.model.fit(self.X, self.y)


class Small:
    """Loops of small fits, which go over to a method of second order when they see fit."""

    params = [[(50, 10), (500, 50)], ["hinge", "logistic", "squared_hinge"], [1e-2, 1e-5]]
    param_names = ["shape", "loss", "alpha"]

    def setup(self, shape, loss, alpha):
        self.sets = [make_dense(*shape, seed=seed) for seed in range(20)]
        self.model = SDCAClassifier(loss, alpha=alpha, random_state=0)

    def time_fits(self, shape, loss, alpha):
        for X, y in self.sets:
            self.model.fit(X, y)


class Outliers:
    """Whole fits of Huber's loss to targets with heavy tails, beside scikit-learn's."""

    models = {
        "SDCARegressor": lambda: SDCARegressor(
            "huber", epsilon=1.0, alpha=ALPHA, penalize_intercept=False, random_state=0
        ),
        "HuberRegressor": lambda: HuberRegressor(max_iter=1000),  # finds a scale, too
    }
    params = list(models)
    param_names = ["solver"]

    def setup(self, solver):
        X, _ = make_dense(20_000, 50)
        rng = np.random.default_rng(1)
        self.X, self.y = X, X @ rng.standard_normal(50) + rng.standard_t(2, size=len(X))
        self.model = self.models[solver]()

    def time_fit(self, solver):
        self.model.fit(self.X, self.y)


class Intercepts:
    """Passes that an intercept takes over blocks in turns, and rounds over partitions."""

    params = [["none", "penalised", "free"], [1, 4, 20]]
    param_names = ["intercept", "blocks"]
    options = {
        "none": {"fit_intercept": False},
        "penalised": {},
        "free": {"penalize_intercept": False},
    }

    def setup(self, intercept, blocks):
        self.X, self.y = make_sparse(20_000, 5_000, 50)
        self.blocks = [
            (self.X[rows], self.y[rows]) for rows in np.array_split(np.arange(20_000), blocks)
        ]
        self.parameters = {"alpha": 1e-4, "max_iter": 400, "random_state": 0}
        self.parameters |= self.options[intercept]

    def track_passes(self, intercept, blocks):
        return SDCAClassifier(**self.parameters).fit_stream(self.blocks).n_iter_

    def track_rounds(self, intercept, blocks):
        model = distributed.SDCAClassifier(**self.parameters)
        return model.fit([[block] for block in self.blocks]).n_iter_


class ManyColumns:
    """Whole fits of columns of different scales, whose equations are too many to form."""

    params = ["logistic", "squared_hinge"]
    param_names = ["loss"]
    timeout = 120

    def setup(self, loss):
        X, self.y = make_sparse(20_000, 50_000, 20)
        scales = 10 ** np.random.default_rng(1).uniform(-1, 1, X.shape[1])
        self.X = (X @ sp.diags_array(scales)).tocsr()
        self.model = SDCAClassifier(loss, alpha=1e-6, random_state=0)

    def time_fit(self, loss):
        self.model.fit(self.X, self.y)


class MiniBatch:
    """Ten passes of mini-batched dual ascent."""

    params = [["safe", "aggressive"], [16, 1024], list(PROBLEMS)]
    param_names = ["rule", "batch_size", "problem"]

    def setup(self, rule, batch_size, problem):
        self.X, self.y = PROBLEMS[problem]()
        self.model = SDCAClassifier(
            alpha=ALPHA,
            batch_size=batch_size,
            batch_rule=rule,
            max_iter=10,
            tol=1e-9,
            random_state=0,
        )

    def time_fit(self, rule, batch_size, problem):
        timed_fit(self.model, self.X, self.y)


class Prediction:
    """Scores of many rows, beside LinearSVC's."""

    params = [["SDCAClassifier", "LinearSVC"], ["sparse", "dense"]]
    param_names = ["solver", "storage"]

    def setup(self, solver, storage):
        if storage == "sparse":
            self.X, y = make_sparse(200_000, 1000, entries_per_row=12)
        else:
            self.X, y = make_dense(500_000, 20)
        rows = slice(5000)
        model = SDCAClassifier(random_state=0) if solver == "SDCAClassifier" else LinearSVC()
        self.model = model.fit(self.X[rows], y[rows])

    def time_decision_function(self, solver, storage):
        self.model.decision_function(self.X)


class HardKernel:
    """Whole fits that float64 kernel values and a method of second order end."""

    params = [["linear", "rbf"], [1.0, 1e4]]
    param_names = ["kernel", "C"]

    def setup(self, kernel, C):
        X, self.y = make_dense(1000, 20)
        self.X = X * np.logspace(-2, 3, X.shape[1]) if kernel == "linear" else X
        self.model = KernelSDCAClassifier(kernel=kernel, C=C, random_state=0)

    def time_fit(self, kernel, C):
        self.model.fit(self.X, self.y)

    def peakmem_fit(self, kernel, C):
        self.model.fit(self.X, self.y)


class Kernel:
    """Whole fits and predictions of a kernel machine beside SVC, to the default tolerances."""

    models = {
        "KernelSDCAClassifier": lambda: KernelSDCAClassifier(gamma=GAMMA, random_state=0),
        "two threads": lambda: KernelSDCAClassifier(gamma=GAMMA, random_state=0, n_jobs=2),
        "SVC": lambda: SVC(gamma=GAMMA),
    }
    params = list(models)
    param_names = ["solver"]
    timeout = 120

    def setup(self, solver):
        self.X, self.y = make_sparse(6000, 200, entries_per_row=20)
        self.model = self.models[solver]().fit(self.X, self.y)

    def time_fit(self, solver):
        self.model.fit(self.X, self.y)

    def time_predict(self, solver):
        self.model.decision_function(self.X)

    def peakmem_fit(self, solver):
        self.model.fit(self.X, self.y)


class FewRows:
    """Predictions of few dense rows by a kernel machine of 2000 support vectors, beside SVC."""

    models = {
        "KernelSDCAClassifier": lambda: KernelSDCAClassifier(random_state=0),
        "SVC": SVC,
    }
    params = [list(models), [1, 16]]
    param_names = ["solver", "rows"]

    def setup(self, solver, rows):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((2000, 784))
        self.model = self.models[solver]().fit(X, rng.integers(0, 2, len(X)))
        self.X = X[:rows]

    def time_predict(self, solver, rows):
        self.model.decision_function(self.X)


class Pairs:
    """Whole fits of many small kernel machines, one against one, beside SVC."""

    models = {
        "KernelSDCAClassifier": lambda: KernelSDCAClassifier(random_state=0),
        "SVC": SVC,
    }
    params = list(models)
    param_names = ["solver"]

    def setup(self, solver):
        rng = np.random.default_rng(0)
        self.y = np.repeat(np.arange(20), 50)
        centres = rng.standard_normal((20, 20))
        self.X = centres[self.y] + rng.standard_normal((len(self.y), 20))
        self.model = self.models[solver]()

    def time_fit(self, solver):
        self.model.fit(self.X, self.y)


class Memory:
    """Peak memory of a process that makes a sparse float32 problem and fits ten passes of it."""

    models = {
        "SDCAClassifier": lambda n_rows: sdca(ALPHA, seed=0, max_iter=10),
        "PegasosClassifier": lambda n_rows: pegasos(ALPHA, seed=0, max_iter=10),
        "LinearSVC": lambda n_rows: linear_svc(n_rows, ALPHA, seed=0, max_iter=10),
        "SGDClassifier": lambda n_rows: sgd(ALPHA, seed=0, max_iter=10, average=False),
    }
    params = list(models)
    param_names = ["solver"]

    def setup(self, solver):
        X, self.y = make_sparse(50_000, 200_000, entries_per_row=40)
        self.X = X.astype(np.float32)
        self.model = self.models[solver](X.shape[0])

    def peakmem_fit(self, solver):
        timed_fit(self.model, self.X, self.y)


class Joint:
    """An epoch of joint multiclass Pegasos, 20 classes."""

    params = [["hinge", "logistic"], list(PROBLEMS)]
    param_names = ["loss", "problem"]

    def setup(self, loss, problem):
        self.X, y = PROBLEMS[problem]()
        self.y = np.random.default_rng(0).integers(0, 10, y.size) + 10 * (y > 0)
        self.model = PegasosClassifier(
            loss, multi_class="joint", alpha=ALPHA, max_iter=1, tol=0, random_state=0
        )

    def time_epoch(self, loss, problem):
        timed_fit(self.model, self.X, self.y)


class Sequences:
    """An epoch over 1000 tagged sequences."""

    def setup(self):
        self.data = make_tagged_sequences(1000, random_state=0)[:3]
        self.model = SequencePegasos(alpha=ALPHA, max_iter=1, tol=0, random_state=0)

    def time_epoch(self):
        self.model.fit(*self.data)
