"""Nanoseconds per stored entry of the primitives that every solver is made of, by layout."""

import timeit

import numpy as np

from sublinear._core.matrix import Matrix
from sublinear._core.strata import Strata

from .problems import make_dense, make_sparse
from .solvers import stored_values

N_ROWS = 4000
N_COLUMNS = 512


def _csr(dtype, index):
    X, _ = make_sparse(N_ROWS, 50_000, entries_per_row=32)
    X = X.astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


LAYOUTS = {
    "csr float64 int32": lambda: _csr(np.float64, np.int32),
    "csr float64 int64": lambda: _csr(np.float64, np.int64),
    "csr float32 int32": lambda: _csr(np.float32, np.int32),
    "csr float32 int64": lambda: _csr(np.float32, np.int64),
    "dense C float64": lambda: make_dense(N_ROWS, N_COLUMNS)[0],
    "dense C float32": lambda: make_dense(N_ROWS, N_COLUMNS)[0].astype(np.float32),
    "dense F float64": lambda: np.asfortranarray(make_dense(N_ROWS, N_COLUMNS)[0]),
}


class Primitives:
    """Random-order passes over the rows: dots with a vector, and adding multiples to one.

    And what Pegasos does once: lays weighted examples out in strata.
    """

    params = list(LAYOUTS)
    param_names = ["layout"]
    unit = "ns per stored entry"

    def setup(self, layout):
        X = LAYOUTS[layout]()
        rng = np.random.default_rng(0)
        self.matrix = Matrix(X)
        self.entries = stored_values(X)
        self.order = rng.permutation(X.shape[0])
        self.weights = rng.standard_normal(X.shape[1])
        self.coefficients = rng.standard_normal(X.shape[0])

    def track_row_dots(self, layout):
        return self._nanoseconds(lambda: self.matrix.row_dots(self.weights, self.order))

    def track_add_rows(self, layout):
        return self._nanoseconds(
            lambda: self.matrix.add_rows(self.coefficients, self.order, self.weights)
        )

    def track_strata(self, layout):
        masses = np.exp(self.coefficients)
        return self._nanoseconds(lambda: Strata(self.matrix, self.coefficients, masses))

    def _nanoseconds(self, statement):
        timer = timeit.Timer(statement)
        timer.timeit(1)
        return min(timer.repeat(7, 3)) / 3 / self.entries * 1e9


Primitives.track_row_dots.unit = Primitives.unit
Primitives.track_strata.unit = Primitives.unit
Primitives.track_add_rows.unit = Primitives.unit
