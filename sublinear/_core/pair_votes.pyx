"""Scores of classes from those of their pairs."""
import numpy as np


def scores_of_classes(const double[:, :] scores, Py_ssize_t n_classes):
    """Return votes per class, plus the sum of a class's scores squeezed into (-1/3, 1/3).

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_pairs), float64
        Of the pairs (0, 1), (0, 2), .., (1, 2), ..; positive for the first of a pair.
    n_classes : int

    Returns
    -------
    scores : ndarray of shape (n_samples, n_classes)
        As those of sklearn.svm.SVC.
    """
    cdef Py_ssize_t n_rows = scores.shape[0], first, second, i, pair = 0
    if scores.shape[1] != n_classes * (n_classes - 1) // 2:
        raise ValueError(f"{scores.shape[1]} pairs of {n_classes} classes")
    cdef double[:, :, ::1] both = np.zeros((2, n_classes, n_rows))  # a class's side by side
    cdef double[:, ::1] votes = both[0], sums = both[1]
    with nogil:
        for first in range(n_classes):
            for second in range(first + 1, n_classes):
                for i in range(n_rows):
                    votes[first, i] += scores[i, pair] >= 0
                    votes[second, i] += scores[i, pair] < 0
                    sums[first, i] += scores[i, pair]
                    sums[second, i] -= scores[i, pair]
                pair += 1
    summed = np.asarray(sums)
    return (votes + summed / (3 * (np.abs(summed) + 1))).T
