"""Kernel machines for any number of classes: one-vs-one, or one-vs-rest.

One-vs-one has n_classes (n_classes - 1) / 2 problems, but each has the examples of two classes
alone: with kernels, whose cost grows with the square of that number, it is the cheaper one, unless
these are few.
Coefficients are laid out as in libsvm: support vectors are sorted by class, and each has one
coefficient for every other class.
"""

from itertools import combinations

import numpy as np

from sublinear._classification import OneVsRestMixin
from sublinear._core.pair_votes import scores_of_classes
from sublinear._documentation import with_parameters
from sublinear._fit_method import forget
from sublinear._labels import combine_weights, find_classes
from sublinear._validation import RowNumbers, check_choice, check_sample_weight

WAYS = ("ovo", "ovr")


class KernelClassifierMixin(OneVsRestMixin):
    """What kernel classifiers share.

    `_pairs` are the pairs of classes, none unless the problems of the fit are pairs.
    """

    def _check_parameters(self):
        super()._check_parameters()
        check_choice("multi_class", self.multi_class, WAYS)
        check_choice("decision_function_shape", self.decision_function_shape, WAYS)

    def _prepare(self, X, y, sample_weight):
        """Return the training, with parameters and data checked."""
        self._check_parameters()
        X, y = self._check_data(X, y)
        self.classes_ = find_classes(y)
        n_paired = len(self.classes_) if self.multi_class == "ovo" else 0
        self._pairs = list(combinations(range(n_paired), 2)) if n_paired > 2 else []
        weights = check_sample_weight(sample_weight, X)
        given = self._row_numbers(X, weights)
        if len(np.unique(given.part(y))) < len(self.classes_):
            given = RowNumbers(None)  # pairs have rows of both classes
        training = self._class_training(*map(given.part, (X, y, weights)))
        training.given = given
        return training

    def _adopt(self, other, training):
        super()._adopt(other, training)
        self._pairs = other._pairs

    def _class_training(self, X, y, sample_weight):
        """Return the training of a binary problem, one per class, or one per pair of classes."""
        if not self._pairs:
            return super()._class_training(X, y, sample_weight)
        weights = combine_weights(
            self.class_weight, self.classes_, y, check_sample_weight(sample_weight, X)
        )
        codes = np.searchsorted(self.classes_, y)
        members = [np.flatnonzero(codes == k) for k in range(len(self.classes_))]

        def subset(pair):
            return np.sort(np.concatenate([members[k] for k in pair]))

        def targets(pair):
            return np.where(codes[subset(pair)] == pair[0], 1.0, -1.0)

        return self._training(
            X,
            y,
            [lambda pair=pair: targets(pair) for pair in self._pairs],
            weights,
            sample_weight,
            subsets=[lambda pair=pair: subset(pair) for pair in self._pairs],
        )

    def _problem_name(self, k):
        if not self._pairs:
            return super()._problem_name(k)
        first, second = self.classes_[list(self._pairs[k])]
        return f"{type(self).__name__}, class {first} against {second}"

    def _rows_of_dual(self, n_problems):
        return len(self.classes_) - 1 if self._pairs else super()._rows_of_dual(n_problems)

    def _places(self, k):
        """Yield (support vectors, row of dual_coef_) that hold the coefficients of problem k."""
        if not self._pairs:
            yield from super()._places(k)
            return
        ends = np.cumsum(self.n_support_)
        for this, other in (self._pairs[k], self._pairs[k][::-1]):
            stop = ends[this]
            yield slice(stop - self.n_support_[this], stop), other - (other > this)

    def _lay_out(self, models, training):
        """As KernelModel._lay_out; support vectors of pairs are sorted by class."""
        if training.subsets is None:
            forget(self, ("n_support_",))
            return super()._lay_out(models, training)
        codes = np.searchsorted(self.classes_, training.y)
        used = np.zeros(training.n_rows, dtype=bool)
        parts = []
        for subset, model in zip(training.subsets, models, strict=True):
            places = np.flatnonzero(model[:-1])
            rows = subset()[places] if places.size else places
            used[rows] = True
            parts.append((rows, model[places]))
        support = np.flatnonzero(used)
        support = support[np.argsort(codes[support], kind="stable")]
        self.n_support_ = np.bincount(codes[support], minlength=len(self.classes_))
        coefficients = np.zeros((len(self.classes_) - 1, len(support)))
        dense = np.zeros(training.n_rows)
        for k, (rows, values) in enumerate(parts):
            dense[rows] = values
            for chosen, row in self._places(k):
                coefficients[row, chosen] = dense[support[chosen]]
            dense[rows] = 0
        return support, coefficients

    def _groups(self):
        """As KernelModel._groups: the support vectors of a class are a group."""
        if not self._pairs:
            return super()._groups()
        n_classes = len(self.classes_)
        problems = np.zeros((n_classes, n_classes), dtype=np.int64)
        first, second = np.triu_indices(n_classes, 1)  # in the order of the pairs
        problems[first, second] = problems[second, first] = np.arange(len(first))
        others = ~np.eye(n_classes, dtype=bool)
        return np.cumsum(self.n_support_), problems[others].reshape(n_classes, -1)

    def _keep_support(self, kept):
        super()._keep_support(kept)
        if self._pairs:
            ends = np.cumsum(self.n_support_)
            self.n_support_ = np.diff(np.searchsorted(kept, ends), prepend=0)

    @with_parameters()
    def decision_function(self, X):
        """Return the score of every example.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        scores : ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            Binary: positive means ``classes_[1]``. decision_function_shape="ovr": one column per
            class. "ovo", of models with multi_class="ovo": one column per pair of classes (0, 1),
            (0, 2), .., (1, 2), ..; positive means the first of the pair.
        """
        scores = super().decision_function(X)
        if self.decision_function_shape == "ovr" and self._pairs:
            return scores_of_classes(scores, len(self.classes_))
        return scores

    @with_parameters()
    def predict(self, X):
        """Return the label with the largest score; one-vs-one: with the most votes.

        Ties go to the class whose summed scores are larger.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        if not getattr(self, "_pairs", None):
            return super().predict(X)
        scores = super().decision_function(X)
        votes = scores_of_classes(scores, len(self.classes_))
        return self.classes_[votes.argmax(axis=1)]
