"""Unbiased estimates of a row of a kernel matrix from single columns of the data.

Paper: Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning" (2010), section VI.

With x a row and j drawn by x_j^2, s(z) = z_j |x|^2 / x_j has the mean <x, z> and the second moment
|x|^2 |z|^2. For independent draws

    linear  s
    poly    (gamma s_1 + coef0) .. (gamma s_q + coef0)                           q = degree
    rbf     exp(lambda - gamma (|x|^2 + |z|^2)) (2 gamma / lambda)^q s_1 .. s_q  q of Poisson's

have the mean k(x, z), the last one because exp(t) is the mean of exp(lambda) (t / lambda)^q. With
lambda = 2 gamma |x| R, R the largest |z|, its second moment is 1 where |x| = |z| = R, and at most
exp(gamma R^2 / 2). Poly, gamma = 1 and coef0 = 0, has (|x| |z|)^(2 q).

The same columns serve all z: an estimate of a whole row reads that row of the data and q columns.

Departure: lambda follows the length of x. The series ends where a Poisson variable hardly ever
gets: ten standard deviations and twenty above its mean, a probability below 1e-15.
"""
from libc.math cimport exp, sqrt

import numpy as np

from sublinear._core.flat_sampler cimport Draw, FlatSampler, draw_entries, sum_blocks
from sublinear._core.kernels cimport Kernel
from sublinear._core.line cimport Line, add, line_at
from sublinear._core.matrix cimport Matrix
from sublinear._core.random cimport RandomBits, uniform

from sublinear._core.kernels import RBF, Linear, Poly

cdef double LARGEST_EXPONENT = 300.0


cdef class KernelEstimator:
    """Estimates of rows of the kernel matrix of the rows of a matrix.

    Parameters
    ----------
    kernel : Kernel
        Linear, Poly or RBF.
    matrix : Matrix
        Without a constant column; its `transposed()` is read by columns.
    squares : ndarray of shape (n_rows,), float64
        |A_k|^2.

    Attributes
    ----------
    accesses, full_accesses : int
        Stored values read; the same with every line charged in full.
    """

    def __init__(self, Kernel kernel, Matrix matrix, squares):
        if not isinstance(kernel, (Linear, Poly, RBF)):
            raise ValueError(f"there are no estimates of a {type(kernel).__name__} kernel")
        self.kernel, self.matrix, self.columns = kernel, matrix, matrix.transposed()
        self.exponential = isinstance(kernel, RBF)
        self.squares = np.array(squares, dtype=np.float64)
        self.radius = sqrt(np.max(squares))
        if self.exponential and 2 * kernel.gamma * self.radius**2 > LARGEST_EXPONENT:
            raise ValueError(
                f"an estimate would read {2 * kernel.gamma * self.radius**2:.0f} columns: centre "
                "or scale X, choose a smaller gamma, or exact kernel values"
            )
        self.sampler = FlatSampler(matrix.n_columns)
        self.point = np.zeros(matrix.n_columns)
        self.inner, self.product = np.zeros(matrix.n_rows), np.zeros(matrix.n_rows)
        self.row = -1

    def add(self, Py_ssize_t i, double factor, double[::1] out, RandomBits random):
        """Add factor * (an estimate of k(A_i, A_k)) to out[k] for every k."""
        cdef Py_ssize_t n = self.matrix.n_rows, draws, j, k, _
        cdef double gamma = self.kernel.gamma, shift = 0, slope = 1, square, rate = 0, exponent
        cdef double* inner = &self.inner[0]
        cdef double* product = &self.product[0]
        cdef Line line
        cdef Draw drawn
        if out.shape[0] != n:
            raise ValueError(f"out must have {n} entries, got {out.shape[0]}")
        self._look_at(self.matrix.checked_row(i))
        square = self.squares[i]
        if self.exponential:
            rate = 2 * gamma * sqrt(square) * self.radius
            draws = np.random.Generator(random.bit_generator).poisson(rate)
            draws = min(draws, self.most_draws())
            slope = 2 * gamma / rate if rate > 0 else 0
        elif isinstance(self.kernel, Poly):
            draws, slope, shift = self.kernel.degree, gamma, self.kernel.coef0
        else:
            draws = 1
        with nogil:
            for k in range(n):
                exponent = rate - gamma * (square + self.squares[k]) if self.exponential else 0
                product[k] = factor * exp(exponent)
            for _ in range(draws):
                for k in range(n):
                    inner[k] = 0
                if square > 0:
                    drawn = draw_entries(&self.sampler.sums, uniform(random.bits))
                    j = drawn.start
                    line = line_at(&self.columns.rows, j)
                    add(&line, self.point[j] / drawn.share, inner)
                    self.accesses += line.size
                    self.full_accesses += n
                for k in range(n):
                    product[k] *= slope * inner[k] + shift
            for k in range(n):
                out[k] += product[k]

    def most_draws(self):
        """Return how many columns an estimate reads at the most."""
        if self.exponential:
            rate = 2 * self.kernel.gamma * self.radius**2
            return int(rate + 10 * sqrt(rate) + 20)
        return self.kernel.degree if isinstance(self.kernel, Poly) else 1

    def _look_at(self, Py_ssize_t i):
        """Hold row i and the chances of its entries."""
        cdef Py_ssize_t j
        cdef Line line
        if self.row == i:
            return
        self.point[:] = 0
        line = line_at(&self.matrix.rows, i)
        add(&line, 1.0, &self.point[0])
        for j in range(self.point.shape[0]):
            self.sampler.sums.chance[j] = self.point[j] * self.point[j]
        sum_blocks(&self.sampler.sums)
        self.row = i
        self.accesses += line.size
        self.full_accesses += self.point.shape[0]
