"""Class labels: which there are, which one an example has, and what the classes weigh."""

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite

from sublinear._core.aligned import contiguous
from sublinear._core.losses import signs
from sublinear._validation import check_number, check_total_weight, total_of

SHOWN_LABELS = 5  # of those that are wrong
WEIGHTLESS = "class_weight leaves no example with a positive weight"


def find_classes(y):
    """Return the sorted labels of y; ValueError if they are no classes or there is only one."""
    classes = _two_numbers(y)
    if classes is None:
        classes = distinct(y)  # first: scikit-learn does not say what mixed labels are
        if not _are_plain(y, classes):
            with np.errstate(invalid="ignore"):  # it makes integers of them
                check_classification_targets(y)
    check_two_classes(classes)
    return classes


def check_two_classes(classes):
    """Raise ValueError for a single class, or none."""
    if len(classes) < 2:
        raise ValueError(
            "y holds only one class; a classifier needs examples of at least two classes, "
            f"got {classes.tolist()}"
        )


def distinct(labels):
    """Return the sorted distinct labels; ValueError if they have no order."""
    try:
        return np.unique(labels)
    except TypeError as error:
        raise ValueError(
            f"labels must be all numbers or all text, so that they can be sorted: {error}"
        ) from error


def distinct_plain(labels):
    """Return the sorted distinct labels; numbers in objects as such, text in objects as it is."""
    return unboxed(distinct(labels))


def unboxed(labels):
    """Return numbers in objects as such, text in objects as it is."""
    plain = np.array(labels.tolist()) if labels.dtype == object else labels
    return labels if plain.dtype.kind == "U" else plain


def join_labels(first, second):
    """Return the sorted distinct labels of two parts of the data, given those of each.

    Raises
    ------
    ValueError
        If they are numbers and text, which NumPy would make text; or one number in a type that
        holds them all.
    """
    if first.dtype == second.dtype != object:
        return np.union1d(first, second)
    labels = distinct(np.array([*first.tolist(), *second.tolist()], dtype=object)).tolist()
    dtype = np.result_type(first, second)
    if dtype.kind == "f" and all(float(label).is_integer() for label in labels):
        labels = [int(label) for label in labels]  # floats may not hold their last digits
        # left to itself NumPy makes floats of integers beyond int64
        unsigned = labels[0] >= 0 and 2**63 <= labels[-1] < 2**64
        dtype = np.uint64 if unsigned else np.array(labels).dtype
    joined = np.array(labels, dtype=dtype)
    if len(np.unique(joined)) < len(labels):
        raise ValueError(
            f"some of the labels {labels[0]!r} to {labels[-1]!r} are the same number in the type "
            f"{joined.dtype}, which holds all of them: pass them as text"
        )
    return joined


class LabelWeights:
    """The labels of several parts of the data, and the weight of each.

    Attributes
    ----------
    labels : ndarray or None
        Sorted; None without parts.
    weight_of : dict
    """

    def __init__(self):
        self.labels, self.weight_of = None, {}

    def add(self, y, weights):
        """Count examples."""
        labels = distinct(y)
        masses = np.bincount(class_codes(y, labels), weights)
        self._join(distinct_plain(labels), zip(labels.tolist(), masses.tolist(), strict=True))

    def add_all(self, other):
        """Count the examples of other LabelWeights."""
        self._join(other.labels, other.weight_of.items())

    def _join(self, labels, pairs):
        self.labels = labels if self.labels is None else join_labels(self.labels, labels)
        for label, mass in pairs:
            self.weight_of[label] = self.weight_of.get(label, 0.0) + mass

    def of(self, labels):
        """Return the weights of labels, 0 for those that did not come (float64)."""
        return np.array([self.weight_of.get(label, 0.0) for label in labels.tolist()])


def given_classes(classes):
    """Return the labels that a caller says will come, sorted; ValueError if they are too few."""
    classes = distinct(classes)
    if len(classes) < 2:
        raise ValueError(
            "classes must hold all labels to come; a classifier needs at least two, got "
            f"{classes.tolist()}"
        )
    try:
        return find_classes(classes)
    except ValueError as error:
        raise ValueError(f"classes must be labels, got {classes.tolist()}: {error}") from error


def declared_classes(y, classes, known):
    """Return the sorted labels of a stream, declared at its first block.

    Parameters
    ----------
    y : ndarray
        Labels of this block.
    classes : array-like or None
        What the caller passed with it.
    known : ndarray or None
        The classes so far; None at the first block.
    """
    if classes is None and known is None:
        raise ValueError("the first call of partial_fit needs classes: all labels to come")
    if classes is not None:
        classes = given_classes(classes)
        if known is not None and not np.array_equal(classes, known):
            raise ValueError(f"classes differ from those of the first call, {known.tolist()}")
        known = classes
    check_known_labels(y, known)
    return known


def _are_plain(y, classes):
    """Tell whether scikit-learn, which looks for some time, has nothing to say of labels.

    They are whole numbers or text, and at most half as many as rows.
    """
    return y.ndim == 1 and y.dtype.kind in "biuU" and 2 * len(classes) <= len(y)


def _two_numbers(y):
    """The labels if they are two numbers, found without sorting; else None."""
    if y.dtype.kind not in "iu" and not (y.dtype.kind == "f" and (y[:1] == np.rint(y[:1])).all()):
        return None
    low, high = y.min(), y.max()
    whole = low == np.rint(low) and high == np.rint(high)
    # others are continuous to scikit-learn
    is_label = whole and max(-float(low), float(high)) < 2**63
    if low == high or not is_label or not ((y == low) | (y == high)).all():
        return None
    return np.array([low, high], dtype=y.dtype)


def check_known_labels(y, classes):
    """Raise ValueError unless all labels are among the classes."""
    if len(classes) == 2 and ((y == classes[0]) | (y == classes[1])).all():
        return  # without sorting them
    assert_all_finite(y, input_name="y")
    known = set(classes.tolist())  # as Python's own: NumPy makes text of numbers beside text
    unknown = [label for label in distinct(y).tolist() if label not in known]
    if unknown:
        more = "" if len(unknown) <= SHOWN_LABELS else f" and {len(unknown) - SHOWN_LABELS} more"
        raise ValueError(
            f"y holds labels that are not among the classes {classes.tolist()}: "
            f"{unknown[:SHOWN_LABELS]}{more}"
        )


def positive_classes(classes):
    """Return the label of every one-vs-rest problem; two classes are one problem, of the second."""
    return classes[1:] if len(classes) == 2 else classes


def margin_targets(y, label):
    """Return +1.0 where y is the label and -1.0 elsewhere (float64)."""
    targets = np.array(y == label, dtype=np.float64)
    targets *= 2
    targets -= 1
    return targets


def class_targets(y, classes):
    """Return the targets of every one-vs-rest problem; ValueError for labels that are not known."""
    targets = signs(y, classes) if len(classes) == 2 else None
    if targets is not None:
        return [targets]
    check_known_labels(y, classes)
    return [margin_targets(y, label) for label in positive_classes(classes)]


def count_targets(y):
    """Return counts as targets (float64); ValueError for a negative one."""
    targets = contiguous(y, dtype=np.float64)
    if (targets < 0).any():
        raise ValueError('loss="poisson" is for counts: y must not be negative')
    return targets


def check_cost(cost, n_classes):
    """Return a cost matrix as float64, or None; ValueError if it is none for so many classes."""
    if cost is None:
        return None
    try:
        cost = contiguous(cost, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"cost must be a matrix of numbers: {error}") from error
    if cost.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost must have a row and a column for each of the {n_classes} classes, in the order "
            f"of classes_; got shape {cost.shape}"
        )
    if not np.isfinite(cost).all() or (cost < 0).any():
        raise ValueError("costs must be finite and not negative")
    if cost.diagonal().any():
        raise ValueError("cost must be 0 on its diagonal: predicting the right class is free")
    if not cost.any():
        raise ValueError("cost is zero everywhere: there is nothing to learn")
    return cost


def class_codes(y, classes):
    """Return the place of every label among the sorted classes (intc)."""
    return np.searchsorted(classes, y).astype(np.intc)


def combine_weights(class_weight, classes, y, weights):
    """Return sample weights times class weights (float64), None if all are 1.

    All labels are among the classes, which are sorted.
    "balanced" gives every class the same total weight.
    """
    if class_weight is None:
        return weights
    masses = np.bincount(class_codes(y, classes), weights, len(classes))
    factors = class_factors(class_weight, classes, masses)
    with np.errstate(over="ignore"):
        weights = weights_by_class(y, weights, classes, factors)
    if not weights.any():
        raise ValueError(WEIGHTLESS)
    check_total_weight(total_of(weights), "the weights, class_weight included,")
    return weights


def weights_by_class(y, weights, classes, factors):
    """Return sample weights, None for 1 each, times the factors of their classes (float64).

    `factors` None leaves them as they are.
    """
    if factors is None:
        return weights
    by_class = factors[class_codes(y, classes)]
    return by_class if weights is None else by_class * weights


def class_factors(class_weight, classes, masses):
    """Return the factor on the weights of every class (float64), given their total weights.

    None without class_weight.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        equal = masses.sum() / len(classes)
        return np.divide(equal, masses, out=np.ones(len(classes)), where=masses > 0)
    if not isinstance(class_weight, dict):
        raise ValueError(f'class_weight must be a dict, "balanced" or None, got {class_weight!r}')
    unknown = [label for label in class_weight if label not in classes]
    if unknown and len(class_weight) - len(unknown) < len(classes):
        raise ValueError(
            f"class_weight names classes that y does not have, {unknown}, and not all that it has"
        )
    for label, factor in class_weight.items():
        check_number(f"class_weight[{label!r}]", factor, low=0)
    return np.array([class_weight.get(label, 1.0) for label in classes.tolist()], dtype=np.float64)
