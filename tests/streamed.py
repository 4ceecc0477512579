"""All estimators with `fit_stream`, each with data, for the tests of what they have in common."""

import numpy as np

from sublinear import (
    PegasosClassifier,
    PegasosRegressor,
    PegasosStructured,
    SDCAClassifier,
    SDCARegressor,
    SequencePegasos,
    StreamingSVRGClassifier,
    StreamingSVRGRegressor,
    StructuredProblem,
    distributed,
)
from sublinear.datasets import make_tagged_sequences
from sublinear.semi_streaming import SemiStreamingEnclosingBall, SemiStreamingPerceptron
from sublinear.sources import ArraySource, distinct_labels


class Sides(StructuredProblem):
    """Labels 0 and 1 as a structured problem."""

    def joint_features(self, x, y):
        return (2 * y - 1) * x

    def loss(self, y, other):
        return float(y != other)

    def loss_augmented_decode(self, weights, x, y):
        return y if (2 * y - 1) * (weights @ x) > 0.5 else 1 - y

    def decode(self, weights, x):
        return int(weights @ x > 0)


COMMON = {"alpha": 0.01, "random_state": 7}
SHORT = COMMON | {"tol": 0, "max_iter": 6}
FEW = {"alpha": 0.01, "kept_rows": 15}
COARSE = {"epsilon": 0.5, "random_state": 7}
# an estimator, its data, and whether it takes one pass
CASES = {
    "pegasos": (PegasosClassifier(**COMMON), "binary", True),
    "pegasos, last iterate": (PegasosClassifier(average="last", **COMMON), "binary", True),
    "pegasos, three classes": (PegasosClassifier("logistic", **COMMON), "multiclass", True),
    "pegasos, classes at once": (
        PegasosClassifier(multi_class="joint", average="random", **COMMON), "multiclass", True
    ),
    "pegasos, regression": (
        PegasosRegressor("huber", bias="subgradient", **COMMON), "regression", True
    ),
    "sdca": (SDCAClassifier(**SHORT), "binary", False),
    "sdca, three classes": (SDCAClassifier(**SHORT), "multiclass", False),
    "sdca, regression": (SDCARegressor(**SHORT), "regression", False),
    "sdca, free intercepts": (
        SDCAClassifier(penalize_intercept=False, **SHORT), "multiclass", False
    ),
    "sdca, second order": (
        SDCAClassifier(second_order=True, **(SHORT | {"tol": 1e-12, "max_iter": 25})),
        "multiclass",
        False,
    ),
    "sdca, second order, free intercept": (
        SDCARegressor(
            "huber", second_order=True, penalize_intercept=False, **(SHORT | {"tol": 1e-12})
        ),
        "regression",
        False,
    ),
    "streaming svrg": (StreamingSVRGRegressor(**FEW), "regression", True),
    "streaming svrg, three classes": (StreamingSVRGClassifier(**FEW), "multiclass", True),
    "streaming svrg, theory": (
        StreamingSVRGRegressor(
            constants="theory", smoothness=50, strong_convexity=1, first_stage=20, inner_steps=9,
            **COMMON,
        ),
        "regression",
        True,
    ),
    "streaming svrg over partitions": (
        distributed.StreamingSVRGClassifier(**FEW), "multiclass", True
    ),
    "streaming svrg over partitions, regression": (
        distributed.StreamingSVRGRegressor(**FEW), "regression", True
    ),
    "sequences": (SequencePegasos(**COMMON), "sequences", True),
    "structured": (PegasosStructured(Sides(), **COMMON), "structured", True),
    "semi-streaming perceptron": (SemiStreamingPerceptron(**COARSE), "binary", False),
    "semi-streaming ball": (SemiStreamingEnclosingBall(**COARSE), "binary", False),
}  # fmt: skip


def source_for(data, request):
    """A source of ten blocks or more."""
    if data == "sequences":
        X, y, lengths, _ = make_tagged_sequences(40, random_state=0)
        starts = np.cumsum([0, *lengths])
        cuts = [(k, starts[k], starts[k + 4]) for k in range(0, 40, 4)]
        return [(X[a:b], y[a:b], lengths[k : k + 4]) for k, a, b in cuts]
    X, y = request.getfixturevalue("binary" if data == "structured" else data)
    if data == "structured":
        X, y = [list(X), y.tolist()]
        return [(X[k : k + 20], y[k : k + 20]) for k in range(0, len(X), 20)]
    return ArraySource(X, y, block_rows=20)


def options_for(case, request):
    """The labels, for those that want to know them."""
    _, data, _ = CASES[case]
    if "semi" in case or data not in ("sequences", "binary", "multiclass"):
        return {}
    return {"classes": distinct_labels(source_for(data, request))}
