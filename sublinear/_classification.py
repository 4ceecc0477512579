"""What classifiers share: one-vs-rest, labels from scores, probabilities."""

import numpy as np
from scipy.special import expit, log_expit, log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from sublinear._core.aligned import contiguous
from sublinear._core.losses import MARGIN_LOSSES
from sublinear._documentation import with_parameters
from sublinear._fitted_parameters import fitted_with
from sublinear._labels import combine_weights, margin_targets, positive_classes
from sublinear._validation import check_sample_weight


class OneVsRestMixin(ClassifierMixin):
    """One-vs-rest over binary problems with targets +1 and -1."""

    _losses = MARGIN_LOSSES

    def _class_training(self, X, y, sample_weight):
        """Return the Training of a binary problem, or of one per class."""
        weights = combine_weights(
            self.class_weight, self.classes_, y, check_sample_weight(sample_weight, X)
        )
        return self._training(X, y, self._targets(y), weights, sample_weight)

    def _targets(self, y):
        """Return a function for each problem, which makes its targets."""
        if y.dtype == np.float64 and np.array_equal(self.classes_, [-1, 1]):
            return [lambda: contiguous(y)]  # they are targets
        labels = positive_classes(self.classes_)
        return [lambda label=label: margin_targets(y, label) for label in labels]

    def _problem_name(self, k):
        name = super()._problem_name(k)
        return name if len(self.classes_) == 2 else f"{name}, class {self.classes_[k]}"

    @with_parameters()
    def decision_function(self, X):
        """Return the score of every example.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Binary: positive means ``classes_[1]``. Else one column per class.
        """
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    @with_parameters()
    def predict(self, X):
        """Return the label with the largest score.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]


def has_probabilities(model):
    """Raise AttributeError, which tells what to do, unless the loss is one of probabilities."""
    name, loss = type(model).__name__, fitted_with(model, "loss")
    if loss == "logistic":
        return True
    wrap = "wrap it in sklearn.calibration.CalibratedClassifierCV"
    if loss is None:
        raise AttributeError(f"{name} has no probabilities: {wrap}")
    raise AttributeError(
        f'predict_proba needs loss="logistic", and this {name} has loss={loss!r}: fit it with '
        f"that, or {wrap}"
    )


class ProbabilityMixin:
    """Class probabilities of models with logistic loss, from their scores."""

    @available_if(has_probabilities)
    @with_parameters()
    def predict_proba(self, X):
        """Return class probabilities; only with loss="logistic".

        Where there is one model for each of more than two classes, their probabilities are divided
        by their sum; a model of all classes at once has a softmax.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return self._probabilities(scores)

    @available_if(has_probabilities)
    @with_parameters()
    def predict_log_proba(self, X):
        """Return the logarithms of class probabilities; only with loss="logistic".

        They are accurate where probabilities are too small for floating-point numbers.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return self._log_probabilities(scores)

    def _probabilities(self, scores):
        """Return probabilities in the array of the scores of more than two classes."""
        sums = expit(scores).sum(axis=1, keepdims=True)
        (rare,) = np.nonzero(sums[:, 0] < np.finfo(scores.dtype).tiny ** 0.5)
        of_rare = np.exp(self._log_probabilities(scores[rare]))
        probabilities = expit(scores, out=scores)
        probabilities /= np.maximum(sums, np.finfo(scores.dtype).tiny)
        probabilities[rare] = of_rare
        return probabilities

    def _log_probabilities(self, scores):
        """Return log probabilities from the scores of more than two classes."""
        return log_softmax(log_expit(scores), axis=1)
