"""Classification problems made on the spot, with labels that a linear model can nearly tell."""

import numpy as np
import scipy.sparse as sp


def make_sparse(n_rows, n_columns, entries_per_row, seed=0):
    """Return unit-norm CSR rows of `entries_per_row` entries each, and labels -1 or 1.

    Column frequencies fall off as they do in text. Five labels in a hundred are flipped.
    """
    rng = np.random.default_rng(seed)
    columns = (n_columns * rng.random((n_rows, entries_per_row)) ** 2).astype(np.int32)
    values = rng.exponential(size=columns.shape)
    offsets = np.arange(n_rows + 1, dtype=np.int32) * entries_per_row
    X = sp.csr_matrix((values.ravel(), columns.ravel(), offsets), shape=(n_rows, n_columns))
    X.sum_duplicates()
    norms = np.sqrt(X.multiply(X).sum(axis=1)).A1
    X = sp.diags(1.0 / norms) @ X
    return X.tocsr(), _labels(X @ rng.standard_normal(n_columns), rng)


def make_dense(n_rows, n_columns, seed=0):
    """Return a dense array of rows of norm about one, and labels -1 or 1 (5 % flipped)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns)) / np.sqrt(n_columns)
    return X, _labels(X @ rng.standard_normal(n_columns), rng)


def _labels(scores, rng):
    labels = np.where(scores >= np.median(scores), 1.0, -1.0)
    labels[rng.random(labels.size) < 0.05] *= -1.0
    return labels
