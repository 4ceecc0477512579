"""Kernels as functions of two examples.

    linear   <x, z>                        poly     (gamma <x, z> + coef0)^degree
    rbf      exp(-gamma |x - z|^2)         sigmoid  tanh(gamma <x, z> + coef0)

`KernelRows` in kernel_rows.pyx says in what types and with what errors their values come.
"""
from cython.parallel cimport prange
from libc.math cimport exp, fabs, pow, sqrt, tanh

import numpy as np
import scipy.sparse as sp

from sublinear._core.matrix cimport Matrix
from sublinear._core.panels cimport PANEL_LINEAR, PANEL_POLY, PANEL_RBF, PANEL_SIGMOID

from sublinear._core.blas import one_blas_thread

cdef double LOG2_E = 1.4426950408889634

UNIT = 2.0**-24                     # of rounding to float32
NEAR = 0.5                          # exponent of rows whose values are far from their bounds
LEAST_SQUARE = 1e-300               # of a row that has such a one
FAR_OUT = 64                        # mean gamma |x|^2 from which on dense data is centred
FAR_OFF = 4                         # mean |x|^2 in variances of x, for the linear kernel


cdef class Kernel:
    """A function of <x, z>, |x|^2 and |z|^2.

    Parameters
    ----------
    gamma : float, default=1.0
        Positive.
    degree : int, default=3
        Not negative.
    coef0 : float, default=0.0
    """

    def __init__(self, double gamma=1.0, int degree=3, double coef0=0.0):
        self.gamma, self.degree, self.coef0 = gamma, degree, coef0
        self.form.shift, self.form.degree, self.scale = coef0, degree, sqrt(gamma)

    cdef double of_dot(self, double dot, double square, double other) noexcept nogil:
        return dot

    def largest(self, double square):
        """Return a bound on |k(x, z)|, or on what float32 must hold on the way, by |x|^2."""
        return square

    def rounding(self, double n_values, double square):
        """Return a typical relative error of values for rows of so many values, by |x|^2."""
        return 0.0

    def most_error(self, n_values, square):
        """Return a bound on errors of float32 values of rows of so many values, by |x|^2.

        inf where the kernel is not positive semi-definite for sure.
        """
        return np.inf

    def exact_error(self, X):
        """Return a typical relative error of float64 values for rows near those of a Matrix.

        0 where float32 values show what it is.
        """
        return 0.0

    def shifts(self, squares):
        """Return what every example adds to the inner products of scaled examples (float32)."""
        return np.zeros(squares.shape[0], dtype=np.float32)

    def is_far(self, squares, mean_of):
        """Tell by |x|^2 whether dense data is to be centred; mean_of() is the mean of the rows."""
        return False

    def most_rank(self, n_features, most):
        """Return a bound on the rank of matrices of values, `most` if none below that is known."""
        return most

    def exact(self, X, Y, dots, int n_threads=1):
        """Return the values between the rows of two Matrix objects, by their products (float64)."""
        cdef double[:, ::1] values = dots
        cdef const double[::1] squares = X.squared_norms(), others = Y.squared_norms()
        cdef Py_ssize_t i, k
        for i in prange(values.shape[0], nogil=True, schedule="static", num_threads=n_threads):
            for k in range(values.shape[1]):
                values[i, k] = self.of_dot(values[i, k], squares[i], others[k])
        return dots


cdef class Linear(Kernel):
    """<x, z>"""

    def __init__(self, double gamma=1.0, int degree=3, double coef0=0.0):
        super().__init__(gamma, degree, coef0)
        self.form.kind, self.scale = PANEL_LINEAR, 1

    def most_error(self, n_values, square):
        """As Kernel.most_error."""
        return (n_values + 4) * UNIT * square

    def most_rank(self, n_features, most):
        """As Kernel.most_rank."""
        return min(n_features, most)

    def is_far(self, squares, mean_of):
        """As Kernel.is_far."""
        mean, square = mean_of(), squares.mean()
        return square > FAR_OFF * (square - np.sum(mean * mean))


cdef class RBF(Kernel):
    """exp(-gamma |x - z|^2)"""

    def __init__(self, double gamma=1.0, int degree=3, double coef0=0.0):
        super().__init__(gamma, degree, coef0)
        self.form.kind, self.scale = PANEL_RBF, sqrt(2 * LOG2_E * gamma)

    cdef double of_dot(self, double dot, double square, double other) noexcept nogil:
        return exp(-self.gamma * max(0.0, square + other - 2 * dot))

    def largest(self, double square):
        """Return the largest exponent."""
        return max(square, 4 * LOG2_E * self.gamma * square)

    def rounding(self, double n_values, double square):
        """Return that of the exponent."""
        return self.gamma * (2 * sqrt(n_values) + 8) * UNIT * 2 * square

    def most_error(self, n_values, square):
        """As Kernel.most_error."""
        return (self.gamma * (2 * n_values + 8) * 2 * square + 8) * UNIT

    def exact_error(self, X):
        """As Kernel.exact_error, by rows a little longer: differences tell their distances."""
        longer = 1 + np.sqrt(NEAR / (self.gamma * np.maximum(X.squared_norms(), LEAST_SQUARE)))
        rows = X.csr() if X.is_sparse else X.arrays[0]
        others = sp.diags_array(longer) @ rows
        away = others - rows
        exponents = self.gamma * (away * away).sum(axis=1)
        values = exact_values(self, X, Matrix(others)).diagonal()
        return float(np.sqrt(np.mean((values * np.exp(exponents) - 1)**2)))

    def shifts(self, squares):
        """Return -gamma log2(e) |x|^2."""
        return (-self.gamma * LOG2_E * squares).astype(np.float32)

    def is_far(self, squares, mean_of):
        """As Kernel.is_far."""
        return self.gamma * squares.mean() > FAR_OUT


cdef class Poly(Kernel):
    """(gamma <x, z> + coef0)^degree"""

    def __init__(self, double gamma=1.0, int degree=3, double coef0=0.0):
        super().__init__(gamma, degree, coef0)
        self.form.kind = PANEL_POLY

    cdef double of_dot(self, double dot, double square, double other) noexcept nogil:
        return pow(self.gamma * dot + self.coef0, self.degree)

    def most_error(self, n_values, square):
        """As Kernel.most_error; powers are products, each of which rounds."""
        if self.coef0 < 0:
            return np.inf
        return self.degree * (n_values + 8) * UNIT * self.largest(square)

    def most_rank(self, n_features, most):
        """Return how many monomials there are, with coef0 those of lower degree too."""
        cdef int k
        extra, count = n_features - (self.coef0 == 0), 1
        for k in range(1, self.degree + 1):
            count = count * (extra + k) // k    # whole at each step, as binomial coefficients are
            if count >= most:
                return most
        return min(count, most)

    def largest(self, double square):
        """Return (gamma |x|^2 + |coef0|)^degree, or the inner product."""
        with np.errstate(over="ignore"):
            power = np.float64(self.gamma * square + fabs(self.coef0)) ** max(1, self.degree)
        return max(square, power)


cdef class Sigmoid(Kernel):
    """tanh(gamma <x, z> + coef0), which is not positive definite"""

    def __init__(self, double gamma=1.0, int degree=3, double coef0=0.0):
        super().__init__(gamma, degree, coef0)
        self.form.kind = PANEL_SIGMOID

    cdef double of_dot(self, double dot, double square, double other) noexcept nogil:
        return tanh(self.gamma * dot + self.coef0)

    def largest(self, double square):
        """Return the largest argument."""
        return max(square, 4 * (self.gamma * square + fabs(self.coef0)))


KERNELS = {"linear": Linear, "poly": Poly, "rbf": RBF, "sigmoid": Sigmoid}


def rows_of(Matrix matrix, numbers):
    """Return some rows of a matrix, numbers or a slice, as a Matrix of float64."""
    if matrix.is_sparse:
        return Matrix(matrix.csr()[numbers].astype(np.float64))
    return Matrix(np.ascontiguousarray(matrix.arrays[0][numbers], dtype=np.float64))


def exact_dots(Matrix X, Matrix Y, dense_dots):
    """Return the inner products between the rows of two matrices of one storage (float64)."""
    if X.is_sparse:
        return np.ascontiguousarray((X.csr() @ Y.csr().T).toarray())
    return dense_dots(X.arrays[0], Y.arrays[0])


def few_dots(X, Y):
    """Return the inner products between few rows."""
    return np.einsum("ik,jk->ij", X, Y)  # bits of BLAS depend on threads


def many_dots(X, Y):
    """Return the inner products between rows, by a BLAS."""
    with one_blas_thread():
        return X @ Y.T


def exact_values(Kernel kernel, X, Y, dense_dots=few_dots, int n_threads=1):
    """Return the kernel's values between the rows of two Matrix objects of float64."""
    return kernel.exact(X, Y, exact_dots(X, Y, dense_dots), n_threads)


def root_mean_square(const double[:, ::1] values):
    """Return that of all values."""
    cdef double total = 0
    cdef Py_ssize_t i, k
    with nogil:
        for i in range(values.shape[0]):
            for k in range(values.shape[1]):
                total += values[i, k] * values[i, k]
    return sqrt(total / (values.shape[0] * values.shape[1]))


def centred_size(const double[:, ::1] values):
    """Return the mean of values, and how large they are once rows and columns have mean 0."""
    cdef Py_ssize_t n_rows = values.shape[0], n_columns = values.shape[1], i, k
    cdef double[::1] of_rows = np.zeros(n_rows), of_columns = np.zeros(n_columns)
    cdef double mean = 0, total = 0, value
    with nogil:
        for i in range(n_rows):
            for k in range(n_columns):
                of_rows[i] += values[i, k] / n_columns
                of_columns[k] += values[i, k] / n_rows
            mean += of_rows[i] / n_rows
        for i in range(n_rows):
            for k in range(n_columns):
                value = values[i, k] - of_rows[i] - of_columns[k] + mean
                total += value * value
    return mean, sqrt(total / (n_rows * n_columns))
