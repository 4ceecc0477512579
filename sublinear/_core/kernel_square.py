"""A kernel matrix, and a Cholesky factor of a part of it, in the memory of one square.

The matrix is kept above the diagonal, the factor below it and on it; what the matrix has on the
diagonal is beside it. So products with the matrix, which correct what rounding did to solutions,
take no memory of their own. Everything goes block by block, with room for Ctrl-C between calls of
a BLAS, which are short.
"""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from sublinear._core.gram import finite

TILE = 512  # rows and columns of kernel values that are computed at a time
STRIP = 64  # rows of a product, which a cache still holds for their mirror image
BLOCK = 128  # columns of the factor at a time
MOST_ROWS = 2048  # of them at a time: copies of more would take much memory
WORK_PER_CALL = 2**29  # multiplications of a BLAS between two looks at Ctrl-C


def square_bytes(n_rows):
    """Return what a KernelSquare of so many rows takes, with all that comes up in passing."""
    return 8.0 * (n_rows**2 + 4 * TILE**2)


class KernelSquare:
    """A symmetric matrix with products, and factors of parts of it.

    Parameters
    ----------
    entries : callable
        entries(rows, columns) -> the matrix there, float64.
    n_rows : int
    """

    def __init__(self, entries, n_rows):
        self.values = np.empty((n_rows, n_rows))
        tiles = [np.arange(start, min(n_rows, start + TILE)) for start in range(0, n_rows, TILE)]
        for k, rows in enumerate(tiles):
            for columns in tiles[k:]:
                part = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
                self.values[part] = entries(rows, columns)
        self.diagonal = self.values.diagonal().copy()

    def product(self, coefficients):
        """Return the matrix times coefficients."""
        n_rows = len(self.diagonal)
        result = self.diagonal * coefficients
        for start in range(0, n_rows, STRIP):
            stop = min(n_rows, start + STRIP)
            own = np.triu(self.values[start:stop, start:stop], 1)
            right = self.values[start:stop, stop:]
            result[start:stop] += (own + own.T) @ coefficients[start:stop]
            result[start:stop] += right @ coefficients[stop:]
            result[stop:] += coefficients[start:stop] @ right
        return result

    def factor(self, chosen, ridge):
        """Factor the matrix between some rows, with a ridge on its diagonal, for `solve`.

        Parameters
        ----------
        chosen : ndarray of int64
            In order.
        ridge : ndarray of shape (len(chosen),)

        Raises
        ------
        LinAlgError
            If it is not positive definite, or has entries that are not finite.
        """
        self.chosen, diagonal = chosen, self.diagonal[chosen] + ridge
        for block in self._blocks():
            self._factor_block(block, diagonal[block])
            triangle = self.values[block, block]
            for strip in self._strips(block):
                left = self._reduced(block, strip)
                self.values[strip, block] = triangular_solution(triangle, left).T

    def _blocks(self):
        count = len(self.chosen)
        return [slice(start, min(count, start + BLOCK)) for start in range(0, count, BLOCK)]

    def _strips(self, block):
        """Yield the rows below a block, so many at a time that products with them are short."""
        count, at_once = len(self.chosen), WORK_PER_CALL // (BLOCK * max(1, block.start))
        step = min(MOST_ROWS, max(BLOCK, at_once))
        for start in range(block.stop, count, step):
            yield slice(start, min(count, start + step))

    def _reduced(self, rows, columns):
        """Return the matrix there, less what the columns of the factor so far make up of it."""
        left = self.values[np.ix_(self.chosen[rows], self.chosen[columns])]
        known = slice(0, rows.start)
        left -= self.values[rows, known] @ self.values[columns, known].T
        return left

    def _factor_block(self, block, diagonal):
        known = self.values[block, : block.start]
        left = self._reduced(block, block)
        np.fill_diagonal(left, diagonal - np.einsum("ij,ij->i", known, known))
        above = np.triu(self.values[block, block], 1)
        factor = cholesky(left, check_finite=False)
        finite(factor.diagonal())  # which takes in all entries above it, and before it
        self.values[block, block] = above + factor.T

    def solve(self, right):
        """Return the solution for one right side, or for the columns of several.

        Raises LinAlgError where it is not finite.
        """
        x = np.array(right)
        for block in self._blocks():
            x[block] -= self.values[block, : block.start] @ x[: block.start]
            x[block] = triangular_solution(self.values[block, block], x[block])
        for block in reversed(self._blocks()):
            below = self.values[block.stop : len(x), block]
            x[block] -= below.T @ x[block.stop :]
            x[block] = triangular_solution(self.values[block, block], x[block], trans="T")
        return finite(x)


def triangular_solution(factor, right, trans="N"):
    """Return what a lower triangle, or its transpose, makes the right side of."""
    return solve_triangular(factor, right, trans=trans, lower=True, check_finite=False)
