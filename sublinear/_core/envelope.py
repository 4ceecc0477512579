"""Losses with kinks, made smooth around duals."""

import numpy as np

LEAST_DISTANCE = 1e-12  # of a prediction to its target, in a curvature


class Envelope:
    """max over a of -l*(-a, y) - a z - width / 2 (a - centre)^2, as a function of z.

    It is at most l(z, y), and touches it where the maximum is at the centre. With width 0, for
    losses without kinks, it is the loss itself.

    Parameters
    ----------
    loss : Loss
    width : float
    """

    def __init__(self, loss, width):
        self.loss, self.width = loss, width

    def duals(self, z, y, centre):
        """Return the maximising a: minus the derivative."""
        if self.width == 0:
            return -self.loss.derivatives(z, y)
        return self.loss.dual_steps(centre, z, y, np.full(len(z), self.width))

    def values(self, z, y, centre):
        """Return the envelope's values."""
        if self.width == 0:
            return self.loss.values(z, y)
        a = self.duals(z, y, centre)
        return -self.loss.conjugates(a, y) - a * z - self.width / 2 * (a - centre) ** 2

    def curvatures(self, duals, z, y):
        """Return the second derivatives at z, where the derivatives are minus these duals."""
        if self.width == 0:
            return self.loss.second_derivatives(z, y)
        form = self.loss.dual_form()
        inside = np.abs(duals) < form.bound
        if form.one_sided or form.epsilon > 0:
            inside &= duals != 0
        return inside / self.width

    @staticmethod
    def secants(duals, z, y):
        """Return the curvatures of iteratively re-weighted least squares."""
        return np.abs(duals) / np.maximum(np.abs(z - y), LEAST_DISTANCE)
