"""Problems of the primal-dual methods: what a model achieves, and what a p proves."""

import math

import numpy as np

from sublinear._core.inner import inner, length
from sublinear._core.passes import Passes
from sublinear._core.solver import BaseObjective

ROUND_OFF = 2.0**-53
MOST_NEWTON_STEPS = 30  # for the best multiple of a model
# rounding is left out of certificates up to these parts of the gap asked for and, where that is
# relative, of the value
UNNOTICED, UNNOTICED_DIGITS = 1e-4, 1e-9


class Saddle(BaseObjective):
    """A problem for `_solvers.primal_dual`, as it wants one.

    Values are those of a minimisation: `primal` bounds what the model achieves from above, `dual`
    the optimum from below.
    """

    geometry = ""
    targets = offsets = ridge = caps = None
    middle = 0.0  # of the entries of a game, which are seen from there
    kernel_error = 0.0  # of a kernel value, where these are float32
    kernel_rounding = 0.0  # by how much a dual value may then exceed a primal one
    least_length = 0.0  # of x, in the space of a kernel: below it x may be 0 but for rounding

    def __init__(self, unit=None):
        self.unit = unit
        self.accesses = 0

    def measure(self, x, payoffs, longest):
        """Return the unit once a pass has found the largest |A_i| and the payoffs of x."""
        return longest

    def model(self, x):
        """Return the model that x becomes where there is no certificate, and no rounding."""
        return x


class Margin(Saddle):
    """Minimise -min_i y_i <A_i, x> over |x| <= 1.

    Parameters
    ----------
    targets : ndarray of shape (n_rows,), float64
    unit : float or None
        About the largest |A_i|.
    """

    geometry = "ball"
    attained = 0.0

    def __init__(self, targets, unit=None):
        super().__init__(unit)
        self.targets = targets
        self._passes = None

    def certificate(self, matrix, x, _, p, rounded):
        """Return the model of x, its primal value and the dual value of p, after one pass."""
        self._passes = self._passes or Passes(matrix, self.targets)
        payoffs, gradient = self._passes.products(x, p)
        self.accesses += matrix.n_stored
        return *self.primal(x, payoffs, self._passes.longest, rounded), self.dual(p, gradient)

    def model(self, x):
        """Return x at length 1."""
        return x / (length(x) or 1.0)

    def primal(self, x, payoffs, longest, rounded):
        """Return x at length 1, as it will be stored, and minus its margin."""
        scale = length(x)
        if scale <= self.least_length:
            return 0.0 * x, 0.0
        x = x / scale
        model = rounded(x)
        margin = payoffs.min() / scale - longest * length(model - x)
        # divided by the model's length, unless that would take a negative margin nearer to 0
        return model, -margin / max(1.0, length(model)) if margin > 0 else -margin

    def dual(self, p, gradient, longest=0.0):
        """Return -|A'Yp|."""
        return -length(gradient)


class SlackMargin(BaseObjective):
    """Problem (3) of the paper for rows divided by `unit`, as a minimisation.

    Parameters
    ----------
    targets : ndarray of shape (n_rows,), float64
    nu : float
    unit : float
        The largest norm of a row.
    bias : bool
    """

    attained = 0.0  # by zero weights

    def __init__(self, targets, nu, unit, bias):
        self.targets, self.nu, self.unit, self.bias = targets, nu, unit, bias
        self.accesses = 0

    def certificate(self, matrix, w, b, p, rounded):
        """Return the rescaled model of w and b, minus its margin, minus the bound of p."""
        rows = np.arange(matrix.n_rows)
        norm = np.linalg.norm(w)
        weights = (w / norm if norm > 0 else w) / self.unit
        payoffs = self.targets * matrix.row_dots(self._with(weights, 0.0), rows)
        gradient = np.zeros(matrix.n_weights)
        matrix.add_rows(p * self.targets, rows, gradient)
        self.accesses += 2 * matrix.n_stored
        value, norm, b = self._best(norm, b, payoffs)  # of the best multiple
        weights = self._with(norm * weights, b)
        bound = slack_mass(p, self.nu) + np.linalg.norm(gradient[: len(w)]) / self.unit
        bound += np.abs(gradient[len(w) :]).sum()
        scale = value if value > 0 else 1.0
        model = rounded(weights / scale)  # Lemma 2.1
        change = np.abs(scale * model - weights)
        lost = self.unit * np.linalg.norm(change[: len(w)]) + change[len(w) :].sum()
        return model, -(value - lost), -bound

    def _with(self, weights, b):
        return np.append(weights, b) if self.bias else weights

    def _best(self, norm, b, payoffs):
        """Return the largest margin, and its |w| and b: multiples of w, stretched or not, and b.

        Where 0 is the best of them it is that of a constant, with slack; without it 0 is the best
        there is, and the hyperplane is kept with the margin it has.

        Parameters
        ----------
        norm, b : float
            |w| and b.
        payoffs : ndarray of shape (n_rows,)
            y_i <w, x_i> / |w|.
        """
        value, best_norm, best_b = max(
            (self._multiple(1.0, b, payoffs), self._multiple(norm, b, payoffs)),
            key=lambda multiple: multiple[0],
        )
        if best_norm or best_b:  # not the zero vector
            return value, best_norm, best_b
        if self.nu == 0:
            return slack_margin(payoffs + self.targets * b, 0.0), 1.0, b
        return self._multiple(0.0, float(self.bias) * np.sign(self.targets.sum()), payoffs)

    def _multiple(self, norm, b, payoffs):
        """Return the largest margin of multiples, up to 1, of |w| and b, and these multiples."""
        margins = norm * payoffs + self.targets * b
        scale = best_scale(margins, self.nu)
        return slack_margin(scale * margins, self.nu), scale * norm, scale * b


def slack_margin(margins, nu):
    """Return the largest min_i margins_i + xi_i over 0 <= xi_i <= 2 with sum xi_i <= nu n.

    g is possible if sum_i max(0, g - margins_i) <= nu n, that is if k g <= nu n + (the sum of the k
    least margins) for every k, and if nobody needs more than 2.
    """
    margins = np.sort(margins)
    sums = np.cumsum(margins) + nu * len(margins)
    return float(min((sums / np.arange(1, len(margins) + 1)).min(), margins[0] + 2))


def best_scale(margins, nu):
    """Return the t in [0, 1] with the largest slack_margin(t * margins, nu).

    That is the least of (nu n + t S_k) / k, S_k the sum of the k least margins, and of 2 + t times
    the least one. The latter, and those of S_k < 0, which come first, fall with t: they meet the
    others in the maximum.
    """
    margins, n = np.sort(margins), len(margins)
    sums, counts = np.cumsum(margins), np.arange(1, n + 1)
    rising = sums >= 0
    if margins[0] >= 0 or not rising.any():
        return float(margins[0] >= 0)
    first = np.argmax(rising)
    by_mean = nu * n / (counts[first] * margins[first] - sums[first])
    by_most = (2 * counts - nu * n)[rising] / (sums - counts * margins[0])[rising]
    return float(min(1.0, by_mean, by_most.max()))


def slack_mass(p, nu):
    """Return the maximum of <p, xi> over 0 <= xi_i <= 2 with sum xi_i <= nu n."""
    slack = np.clip(nu * len(p) - 2 * np.arange(len(p)), 0, 2)
    return float(np.sort(p)[::-1] @ slack)


def distance_error(n_columns, square):
    """Return a bound on the rounding of |A_i|^2 - 2 <A_i, x> + |x|^2, where |A_i|^2 <= square.

    A sum of d products is off by at most d 2^-53 times the product of the lengths. Here are four
    such sums, <A_i, x> counts twice, and they are added up.
    """
    return 4 * (n_columns + 1) * ROUND_OFF * square


class RoundedSaddle(Saddle):
    """A problem whose terms may cancel: what their rounding may amount to is in its values.

    It is added to the primal value and taken off the dual one, if it can be noticed.

    Parameters
    ----------
    unit : float or None
        As the solver wants it.
    epsilon : float, default=1.0
        The gap that will be asked for.

    Attributes
    ----------
    rounding : float
        What rounding adds to the gap of the last primal value and the last dual value.
    """

    relative = False  # epsilon, to the value

    def __init__(self, unit=None, epsilon=1.0):
        super().__init__(unit)
        self.epsilon = epsilon
        self._primal_rounding = self._dual_rounding = 0.0

    @property
    def rounding(self):
        return self._primal_rounding + self._dual_rounding

    def noticed(self, bound, value):
        """Return a bound on the rounding of a value, 0 if it does not matter."""
        unnoticed = UNNOTICED * self.epsilon
        if self.relative:
            unnoticed = min(unnoticed, UNNOTICED_DIGITS) * abs(value)
        return bound if bound > unnoticed else 0.0


class SimplexQP(RoundedSaddle):
    """Minimise max_i |x|^2 + |e|^2 - b_i - 2 <A_i, x> - 2 r_i e_i over x and e.

    That is minus the simplex QP min p'b + p'(A A' + diag r^2) p, whose p the dual value belongs to.

    Where rows are long compared with the value, its terms cancel.

    Parameters
    ----------
    offsets : ndarray of shape (n_rows,), float64
    unit : float or None
        About the largest distance of a row from x.
    epsilon : float, default=1.0
        The gap that will be asked for.
    """

    geometry = "hull"
    n_sums = 1  # additions one after another that make a value of the products, inner's up to 24

    def __init__(self, offsets, unit=None, epsilon=1.0):
        super().__init__(unit, epsilon)
        self.offsets = offsets
        self.largest_offset = np.abs(offsets).max()

    def primal_error(self, x, longest):
        """Return a bound on the rounding of |x|^2 - b_i - 2 <A_i, x>.

        `n_sums` additions follow the products.
        """
        square = max(longest, length(x)) ** 2 + self._own_offset()
        return distance_error(len(x) + self.n_sums - 1, square)

    def dual_error(self, p, n_columns, longest):
        """Return a bound on the rounding of p'b + |A'p|^2.

        A'p adds m rows and enters twice; |A'p|^2 and p'b, whose b has d products for balls, add at
        most 30 numbers one after another; the sum of p is not 1.
        """
        square = longest**2 + self._own_offset()
        n_terms = 2 * (np.count_nonzero(p) + n_columns + 40)
        return (n_terms * ROUND_OFF + 2 * abs(1.0 - float(np.add.reduce(p)))) * square

    def _own_offset(self):
        """The largest offset, where it is not that of a row's length."""
        return self.largest_offset

    def measure(self, x, payoffs, longest):
        payoffs = self.offsets + 2 * payoffs
        return math.sqrt(max(payoffs.max() - payoffs.min(), (longest + length(x)) ** 2))

    def primal(self, x, payoffs, longest, rounded):
        model = rounded(x)
        value = inner(x, x) + self._largest(-self.offsets - 2 * payoffs)
        # what rounding x can add to |x|^2 - 2 <A_i, x>
        change = length(model - x)
        stored = change * (change + 2 * length(x) + 2 * longest)
        error = self.primal_error(x, longest) + 3 * self.kernel_error
        computed = self.noticed(error, value)
        self._primal_rounding = stored + computed
        return model, value + stored + computed

    def _largest(self, values):
        """Return the largest p'values over all p allowed."""
        return values.max()

    def dual(self, p, gradient, longest=0.0):
        value = -(inner(p, self.offsets) + inner(gradient, gradient))
        error = self.dual_error(p, len(gradient), longest) + self.kernel_error
        self._dual_rounding = self.noticed(error, value)
        return value - self._dual_rounding


class EnclosingBall(SimplexQP):
    """Minimise max_i |A_i - x|^2.

    Parameters
    ----------
    squared_norms : ndarray of shape (n_rows,), float64
        |A_i|^2.
    unit : float or None
    epsilon : float, default=1.0
        The gap that will be asked for, relative to the primal value.
    zero : float, default=-inf
        A primal value up to this, of rows that are known to be equal, is rounding.
    """

    relative = True

    def __init__(self, squared_norms, unit=None, epsilon=1.0, zero=-math.inf):
        super().__init__(-squared_norms, unit, epsilon)
        self.zero = zero

    def _own_offset(self):
        return 0.0

    def measure(self, x, payoffs, longest):
        return math.sqrt(max(0.0, inner(x, x) - (self.offsets + 2 * payoffs).min()))

    def primal(self, x, payoffs, longest, rounded):
        """Return the centre and a squared radius that holds all rows."""
        model, value = super().primal(x, payoffs, longest, rounded)
        if value - self._primal_rounding <= self.zero:
            self._primal_rounding = value = 0.0
        return model, max(0.0, value)

    def dual(self, p, gradient, longest=0.0):
        return max(0.0, super().dual(p, gradient, longest))


class SoftBall(EnclosingBall):
    """Minimise R2 + sum_i caps_i max(0, |A_i - x|^2 - R2) over x and R2.

    For given x that is the largest sum_i p_i |A_i - x|^2 with p_i <= caps_i, sum 1: the mean of the
    largest squared distances, until the caps add up to 1.

    Parameters
    ----------
    squared_norms : ndarray of shape (n_rows,), float64
        |A_i|^2.
    caps : ndarray of shape (n_rows,), float64
        Of sum 1 at least.
    unit, epsilon, zero
        As in EnclosingBall.
    """

    n_sums = 25

    def __init__(self, squared_norms, caps, unit=None, epsilon=1.0, zero=-math.inf):
        super().__init__(squared_norms, unit, epsilon, zero)
        self.caps = caps

    def _largest(self, values):
        return mean_of_largest(values, self.caps)[0]


def mean_of_largest(values, caps):
    """Return the largest p'values with p <= caps of sum 1, and the least value that p needs."""
    order = np.argsort(-values, kind="stable")
    before = np.cumsum(caps[order]) - caps[order]
    p = np.clip(1 - before, 0, caps[order])
    needed = int(np.searchsorted(before, 1 - 1e-12)) - 1
    return inner(p, values[order]) / float(p.sum()), float(values[order[needed]])


class SquaredHinge(SimplexQP):
    """Minimise alpha / 2 |w|^2 + sum_i alpha c_i / 2 max(0, 1 - y_i <A_i, w>)^2, c_i = 1 / r_i^2.

    That is a hard margin over the rows [y_i A_i, r_i e_i]: the shortest vector of their hull, of
    squared length q, is the optimal w but for its scale, and alpha / 2 / q is the optimum.

    Parameters
    ----------
    targets, ridge : ndarray of shape (n_rows,), float64
        y and r.
    alpha : float
    epsilon : float, default=1.0
        The gap that will be asked for, relative to the primal value.
    """

    relative = True

    def __init__(self, targets, ridge, alpha, epsilon=1.0):
        super().__init__(np.zeros(len(targets)), epsilon=epsilon)
        self.targets, self.ridge, self.alpha = targets, ridge, alpha

    def measure(self, x, payoffs, longest):
        """Payoffs have r_i e_i besides, which the optimum and the beginning bound by this."""
        return math.hypot(super().measure(x, payoffs, longest), self.shortest_tail())

    def shortest_tail(self):
        """Return the least |e|, that of p in proportion to the weights."""
        least = self.ridge.min()
        return float(least / np.sqrt(np.square(least / self.ridge).sum()))

    def primal(self, x, payoffs, longest, rounded):
        """Return x at its best scale and the objective there."""
        largest = np.abs(payoffs).max() or 1.0  # its square may be out of range
        x, payoffs = x / largest, payoffs / largest
        weights, square = self.ridge**-2, inner(x, x)
        scale, margins = 0.0, np.zeros(len(payoffs))
        best = weights.sum() / 2, x * 0.0, margins, scale
        for _ in range(MOST_NEWTON_STEPS):  # on a piecewise linear derivative
            active = scale * payoffs < 1
            curvature = square + (weights * payoffs**2)[active].sum()
            if curvature == 0:
                break
            scale = max(0.0, (weights * payoffs)[active].sum() / curvature)
            model = rounded(scale * x)
            margins = scale * payoffs - longest * length(model - scale * x)
            losses = inner(weights, np.maximum(0, 1 - margins) ** 2)
            value = (inner(model, model) + losses) / 2
            if not value < best[0]:
                break
            best = value, model, margins, scale
        value, model, margins, scale = best
        error = self._error_of_losses(model, margins, longest, scale / largest)
        self._primal_rounding = self.alpha * self.noticed(error, value)
        return model, self.alpha * value + self._primal_rounding

    def _error_of_losses(self, model, margins, longest, total):
        """Return a bound on the rounding of the losses of a model, over alpha.

        `total` is the sum of its coefficients, where it is one in the space of a kernel.
        """
        # a margin adds so many products, none of their sums is above this
        error = 2 * (len(model) + 1) * ROUND_OFF * longest * length(model)
        error += total * self.kernel_error
        error *= inner(self.ridge**-2, 2 * np.maximum(0, 1 - margins) + error) / 2
        return error + total**2 * self.kernel_error / 2

    def dual(self, p, gradient, longest=0.0):
        square = inner(gradient, gradient) + ((self.ridge * p) ** 2).sum()
        # A'Yp adds so many rows, of which none is longer
        error = (np.count_nonzero(p) + 1) * ROUND_OFF * longest
        error = error * (error + 2 * length(gradient)) + self.kernel_error
        error = self.noticed(error, square)
        if square <= 0:
            return -math.inf
        value = self.alpha / (2 * (square + error))
        self._dual_rounding = value * error / square
        return value


class Game(RoundedSaddle):
    """Minimise max_i <A_i, x> over x in the simplex.

    Where all payoffs are large compared with their differences, these cancel.

    Parameters
    ----------
    unit : float
        About the largest |A_ij - middle|.
    middle : float, default=0.0
        What may be taken off all payoffs, which leaves the strategies as they are.
    epsilon : float, default=1.0
        The gap that will be asked for.
    largest : float, default=None
        The largest absolute payoff; None: unit.
    """

    geometry = "simplex"

    def __init__(self, unit, middle=0.0, epsilon=1.0, largest=None):
        super().__init__(unit, epsilon)
        self.middle = middle
        self.largest = unit if largest is None else largest

    def primal(self, x, payoffs, longest, rounded):
        self._primal_rounding = self._error(x)
        value = payoffs.max() + self._primal_rounding
        return x, value if is_distribution(x) else math.inf

    def dual(self, p, gradient, longest=0.0):
        self._dual_rounding = self._error(p)
        value = gradient.min() - self._dual_rounding
        return value if is_distribution(p) else -math.inf

    def _error(self, weights):
        """Return a bound on the rounding of a mean of payoffs, if it can be noticed."""
        n_terms = np.count_nonzero(weights) + 1
        off = n_terms * ROUND_OFF + abs(1.0 - float(np.add.reduce(weights)))
        return self.noticed(off * self.largest, 0.0)


def is_distribution(weights):
    """Tell whether the sum is 1 but for rounding."""
    return abs(float(np.add.reduce(weights)) - 1) < 1e-6
