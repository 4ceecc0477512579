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
        self.loss, self.width, self.form = loss, width, loss.dual_form()

    def duals(self, z, y, centre):
        """Return the maximising a: minus the derivative."""
        if self.width == 0:
            return -self.loss.derivatives(z, y)
        form = self.form
        a = y - z + self.width * centre
        if form.one_sided:
            return y * np.clip(y * a / self.width, 0, form.bound)
        a = np.copysign(np.maximum(np.abs(a) - form.epsilon, 0), a) / self.width
        return np.clip(a, -form.bound, form.bound)

    def values(self, z, y, centre):
        """Return the envelope's values."""
        if self.width == 0:
            return self.loss.values(z, y)
        a = self.duals(z, y, centre)
        away = a - centre
        return a * (y - z) - self.form.epsilon * np.abs(a) - self.width / 2 * away**2

    def curvatures(self, duals, z, y):
        """Return the second derivatives, where one step of `duals` has led."""
        if self.width == 0:
            return self.loss.second_derivatives(z, y)
        inside = np.abs(duals) < self.form.bound
        if self.form.one_sided or self.form.epsilon > 0:
            inside &= duals != 0
        return inside / self.width

    @staticmethod
    def secants(duals, z, y):
        """Return the curvatures of iteratively re-weighted least squares."""
        return np.abs(duals) / np.maximum(np.abs(z - y), LEAST_DISTANCE)
