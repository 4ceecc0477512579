"""Kernel Pegasos: Shalev-Shwartz et al. (2011), Figure 3, with batches as in Figure 2.

By equation (13), w_t = 1 / (lambda (t - 1)) sum_j alpha_t[j] y_j phi(x_j): Figure 3 prints y of the
drawn example in place of y_j, and t in place of t - 1.
"""

import numpy as np


def kernel_pegasos(K, y, alpha, batches):
    """Yield the counts alpha_{t+1} of Figure 3 after every step; `batches` gives its examples."""
    counts, n_drawn = np.zeros(len(y)), 0
    for batch in batches:
        predictions = predict(K[batch], y, counts, alpha, n_drawn)
        n_drawn += len(batch)
        counts = counts + np.bincount(batch[y[batch] * predictions < 1], minlength=len(y))
        yield counts


def predict(K, y, counts, alpha, n_drawn):
    """Return <w, phi(x)> after so many draws, for rows of kernel values with the examples."""
    return K @ (counts * y) / (alpha * max(n_drawn, 1))


def kernel_pegasos_of_loss(K, y, loss, alpha, batches, weights=None):
    """Yield the coefficients of w_{t+1}, for any loss and any weights (Figure 2, Section 5)."""
    n = len(y)
    s = np.ones(n) if weights is None else weights * n / weights.sum()
    coefficients, n_drawn = np.zeros(n), 0
    for batch in batches:
        derivative = s[batch] * loss.derivative(K[batch] @ coefficients, y[batch])
        n_drawn += len(batch)
        coefficients = (1 - len(batch) / n_drawn) * coefficients
        np.add.at(coefficients, batch, -derivative / (alpha * n_drawn))
        yield coefficients
