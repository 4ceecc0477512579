"""Dense data of a planted margin, too large for copies: in blocks of rows, float32."""

import numpy as np


class Planted:
    """n rows of n columns, of length 1, whose margins under a vector w are at least `margin`.

    Margins are margin * (1 + an exponential variable), at most 0.9; the rest of a row is random.
    """

    def __init__(self, n, margin=0.1, block=512):
        self.n, self.margin, self.block = n, margin, block
        self.random = np.random.default_rng(0)
        self.w = (self.random.choice([-1.0, 1.0], n) / np.sqrt(n)).astype(np.float32)
        self.y = self.random.choice([-1, 1], n)

    def blocks(self):
        """Yield the rows."""
        for start in range(0, self.n, self.block):
            y = self.y[start : start + self.block]
            rows = self.random.standard_normal((len(y), self.n), dtype=np.float32)
            rows -= np.outer(rows @ self.w, self.w)
            rows /= np.linalg.norm(rows, axis=1)[:, None]
            excess = self.random.exponential(size=len(y)).astype(np.float32)
            margins = np.minimum(self.margin * (1 + excess), np.float32(0.9))
            rows *= np.sqrt(1 - margins**2)[:, None]
            rows += np.outer(margins, self.w)
            rows *= y[:, None].astype(np.float32)
            yield rows

    def matrix(self):
        """Return all rows, without a second copy of them."""
        X = np.empty((self.n, self.n), np.float32)
        start = 0
        for rows in self.blocks():
            X[start : start + len(rows)] = rows
            start += len(rows)
        return X
