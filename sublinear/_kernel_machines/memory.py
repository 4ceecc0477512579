"""How much kernel machines keep in memory at a time, by their `memory_limit`."""

import math
from dataclasses import dataclass

from sublinear._core.kernel_rows import items_per_call
from sublinear._solvers.spaces import N_MATRICES
from sublinear._warnings import warn

DEFAULT = 2**30
PANEL = 64  # rows of a block are a multiple
SHORT_ROW = 64  # stored entries: kernel values are cheap beside the ascent's steps
LEAST_BLOCK = 512  # rows: below it a fit is markedly slower


@dataclass(frozen=True)
class KernelMemory:
    """What there is room for.

    Attributes
    ----------
    limit : int or None
        Bytes; None: 1 GiB.
    is_given : bool
        Whether kernel values come from a callable or a matrix, in float64.
    rank : float
        A bound on that of kernel matrices, inf where none is known.
    """

    limit: int | None
    is_given: bool
    rank: float = math.inf

    @property
    def total(self):
        return DEFAULT if self.limit is None else self.limit

    @property
    def half(self):
        """Bytes for packed rows, and as many for blocks."""
        return self.total / 2

    @property
    def matrix(self):
        """Bytes for a kernel matrix in float64, or a factor of it, as one of several its size."""
        return self.half / N_MATRICES

    @staticmethod
    def limit_for(n_bytes):
        """Return the least limit by which `matrix` is so many bytes."""
        return math.ceil(2 * N_MATRICES * n_bytes)

    def _bytes(self, stored):
        """Return a, b: a block of m rows takes a m^2 + b m bytes; rows store so many values."""
        # packed rows besides the values; blocks of given values come in float64 first
        return (12, 0) if self.is_given else (4, 8 * stored)

    def block_size(self, n_rows, stored):
        """Return the rows of a block: those of one problem at a time, whatever n_jobs is."""
        size = 2048 if stored <= SHORT_ROW else 4096
        per_value, per_row = self._bytes(stored)
        affordable = (math.sqrt(per_row**2 + 4 * per_value * self.half) - per_row) / (2 * per_value)
        affordable = int(affordable) // PANEL * PANEL
        if affordable < min(LEAST_BLOCK, n_rows):
            enough = 2 * LEAST_BLOCK * (per_value * LEAST_BLOCK + per_row)
            warn(
                f"memory_limit ({self.total:g} bytes) leaves room for blocks of only "
                f"{max(PANEL, affordable)} examples: the fit will take more rounds and time. "
                f"{math.ceil(enough)} bytes would do.",
                UserWarning,
            )
        return max(PANEL, min(size, affordable))

    def most_at_once(self, n_rows, stored, block_size):
        """Return how many problems of so many rows may be solved at the same time."""
        size = min(block_size, n_rows)
        per_value, per_row = self._bytes(stored)
        needed = per_value * size**2 + per_row * size
        for width in (n_rows, min(n_rows, self.rank)):
            if 8 * n_rows * width <= self.matrix:
                needed = max(needed, N_MATRICES * 8 * n_rows * width)
                break
        return max(1, int(self.half / needed))

    def parts_of_prediction(self, stored, n_problems, n_support, n_threads):
        """Return how many rows to predict, and how many support vectors to take, at a time.

        Rows are so few that Ctrl-C need not wait.
        """
        quarter, per_row = self.total / 4, 8 * stored
        affordable = int(quarter / max(per_row, 8 * n_problems))
        swift = max(n_threads * PANEL, items_per_call(stored * n_support, n_threads))
        return max(PANEL, min(affordable, swift)), max(
            PANEL, int(quarter / per_row) // PANEL * PANEL
        )
