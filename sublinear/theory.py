"""What the papers' theorems say, in numbers: how far batches help, how many iterations suffice."""

import math
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse
from scipy.linalg import eigh_tridiagonal

from sublinear._core.matrix import Matrix
from sublinear._validation import check_matrix, check_number, check_squared_norms
from sublinear._warnings import warn

__all__ = [
    "IterationCounts",
    "StreamingSVRGParameters",
    "batch_speedup",
    "minibatch_sdca_iterations",
    "safe_beta",
    "spectral_norm_squared",
    "streaming_svrg_parameters",
]

LEAST_STEPS = 16  # of the Lanczos method, where there is room for a larger eigenvalue
ROUNDING = 1e-13  # relative to the largest eigenvalue
LEAST_SQUARE = 1e-250  # of a row; where less, terms that matter may have become 0


def spectral_norm_squared(X, *, tol=1e-4, max_iter=200):
    """Return sigma^2, the squared spectral norm of X with unit rows, divided by their number.

    It lies between 1 / n_samples, when all rows are orthogonal, and 1, when all lie on one line,
    and tells how far the steps of a mini-batch get into each other's way.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows are scaled to length 1 for this purpose; those without entries count as they are.
    tol : float, default=1e-4
        The Lanczos method stops when the residual, which bounds the distance to an eigenvalue, is
        at most tol times the value. That is the largest one, with rare exceptions by a few times
        as much. It approaches sigma^2 from below.
    max_iter : int, default=200
        Limit on products with X'X, each a pass over X, or two where X has more columns than rows.
        Reaching it warns. Mostly 4 to 16 are enough.

    Returns
    -------
    sigma_squared : float

    Raises
    ------
    ValueError
        For parameters or data that make no sense, and rows whose squared norm overflows.

    References
    ----------
    Takac, Bijral, Richtarik, Srebro, "Mini-batch primal and dual methods for SVMs", 2013,
    equation 10.

    Examples
    --------
    Rows at right angles, and rows on one line:

    >>> from sublinear import spectral_norm_squared
    >>> spectral_norm_squared([[1.0, 0.0], [0.0, 2.0]]), spectral_norm_squared([[1.0], [2.0]])
    (0.5, 1.0)
    """
    check_number("tol", tol, low=0, open_low=True)
    check_number("max_iter", max_iter, low=1, integer=True)
    return spectral_norm_of(_checked(X), tol, max_iter)


def _checked(X):
    """Return the Matrix of X, or one of longer rows where squared norms become 0."""
    X = check_matrix(X)
    matrix = Matrix(X)
    short = np.flatnonzero(matrix.squared_norms() < LEAST_SQUARE)
    if not short.size:
        return matrix
    largest = abs(X[short]).max(axis=1)
    exponents = np.zeros(X.shape[0], dtype=np.intc)
    exponents[short] = np.frexp(largest.toarray().ravel() if sparse.issparse(X) else largest)[1]
    if not exponents.any():  # rows without entries
        return matrix
    if not sparse.issparse(X):
        return Matrix(np.ldexp(X, -exponents[:, np.newaxis]))
    values = np.ldexp(X.data, -np.repeat(exponents, np.diff(X.indptr)))
    return Matrix(sparse.csr_array((values, X.indices, X.indptr), shape=X.shape))


def spectral_norm_of(matrix, tol=1e-4, max_iter=200):
    """Return `spectral_norm_squared` of a Matrix, its constant column included."""
    n = matrix.n_rows
    squares = matrix.squared_norms()
    check_squared_norms(squares)
    trace = np.count_nonzero(squares)
    squares = np.where(squares > 0, squares, np.inf)
    product, size = partial(_product_of_columns, matrix, squares), matrix.n_weights
    if n < size:  # shorter vectors
        product, size = partial(_product_of_rows, matrix, np.sqrt(squares)), n
    value, residual = _largest_eigenvalue(product, size, trace, tol, max_iter)
    if residual > tol * value:
        warn(f"the Lanczos method stopped at max_iter={max_iter}, still off by over tol={tol:g}")
    return float(min(max(value / n, 1 / n), 1.0))


def _product_of_columns(matrix, squares, v):
    """Return U'U v for the rows of U, those of the matrix over their lengths, of these squares."""
    order, total = np.arange(matrix.n_rows), np.zeros(matrix.n_weights)
    matrix.add_rows(matrix.row_dots(v, order) / squares, order, total)
    return total


def _product_of_rows(matrix, lengths, p):
    """Return U U'p for the rows of U, those of the matrix divided by their lengths."""
    order, w = np.arange(matrix.n_rows), np.zeros(matrix.n_weights)
    matrix.add_rows(p / lengths, order, w)
    return matrix.row_dots(w, order) / lengths


def _largest_eigenvalue(product, size, trace, tol, max_iter):
    """Return the largest eigenvalue of a positive semi-definite matrix, and its residual.

    The Lanczos method, every vector orthogonal to all before. A first vector with hardly a part in
    the right direction leads to another eigenvalue, at which power iteration may rest. Here it does
    no harm: the part has grown after LEAST_STEPS products, unless what the steps have not yet seen
    of the trace leaves no room for a larger eigenvalue.
    """
    vector = np.random.default_rng(0).standard_normal(size)
    basis, diagonal, beside = [], [], []
    while True:
        basis.append(vector / np.sqrt(vector @ vector))
        vector = product(basis[-1])
        diagonal.append(basis[-1] @ vector)
        for _ in range(2):  # the second time takes off what rounding left
            for other in basis:
                vector -= (other @ vector) * other
        count = len(basis)
        (value,), vectors = eigh_tridiagonal(
            diagonal, beside, select="i", select_range=(count - 1, count - 1)
        )
        beside.append(np.sqrt(vector @ vector))
        if count == size or beside[-1] <= ROUNDING * value:  # no further direction
            return value, 0.0
        residual = beside[-1] * abs(vectors[-1, 0])
        is_largest = count >= LEAST_STEPS or trace - sum(diagonal) <= value
        if count == max_iter or (is_largest and residual <= tol * value):
            return value, residual


def safe_beta(n_samples, batch_size, sigma_squared):
    """Return beta_b = 1 + (b - 1)(n sigma^2 - 1) / (n - 1), the factor of the safe steps.

    Parameters
    ----------
    n_samples : int
        Rows of the data.
    batch_size : int
        b, examples per iteration; from 1 to n_samples.
    sigma_squared : float
        See `spectral_norm_squared`; from 1 / n_samples to 1.

    References
    ----------
    Takac et al. 2013, equation 11.

    Examples
    --------
    >>> from sublinear.theory import safe_beta
    >>> safe_beta(101, 11, sigma_squared=1.0)
    11.0
    """
    check_number("n_samples", n_samples, low=1, integer=True)
    check_number("batch_size", batch_size, low=1, high=n_samples, integer=True)
    check_number("sigma_squared", sigma_squared, low=1 / n_samples, high=1)
    if n_samples == 1:
        return 1.0
    return 1 + (batch_size - 1) * (n_samples * sigma_squared - 1) / (n_samples - 1)


def batch_speedup(X, batch_size):
    """Return b / beta_b: by what factor batches of b lower a bound on the number of iterations.

    That of Pegasos; of SDCA by the safe rule the part that depends on epsilon. SDCA mostly gains
    more, up to batch_size times.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Its rows count as in `spectral_norm_squared`.
    batch_size : int
        b, examples per iteration; from 1 to n_samples.

    Returns
    -------
    speedup : float
        From 1 to batch_size. It is nearly batch_size while that is below 1 / sigma^2, then levels
        off.

    Raises
    ------
    ValueError
        For data that makes no sense, rows whose squared norm overflows, and a batch_size that is
        not from 1 to the number of rows.

    References
    ----------
    Takac et al. 2013, sections 3 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear import batch_speedup
    >>> round(batch_speedup(np.eye(10), 5), 6), round(batch_speedup(np.ones((10, 2)), 5), 6)
    (5.0, 1.0)
    """
    matrix = _checked(X)
    beta = safe_beta(matrix.n_rows, batch_size, spectral_norm_of(matrix))
    return min(float(batch_size), batch_size / beta)


@dataclass(frozen=True)
class IterationCounts:
    """Theorem 2 of Takac et al.: iterations after which the averaged dual has a gap below epsilon.

    Attributes
    ----------
    warm_up : int
        t_0: until the dual's suboptimality falls like 1 / t.
    averaging_from : int
        T_0: the average takes the duals of the iterations T_0, .., T - 1.
    total : int
        T.

    Examples
    --------
    >>> from sublinear.theory import minibatch_sdca_iterations
    >>> counts = minibatch_sdca_iterations(1000, 0.01, 0.001)
    >>> counts.warm_up < counts.averaging_from < counts.total
    True
    """

    warm_up: int
    averaging_from: int
    total: int


def minibatch_sdca_iterations(n_samples, alpha, epsilon, *, batch_size=1, sigma_squared=1.0):
    """Return how many iterations of safe mini-batched SDCA suffice for the hinge loss.

    Parameters
    ----------
    n_samples : int
        Rows of the data.
    alpha : float
        The lambda of the paper.
    epsilon : float
        Wanted bound on the expected duality gap of the averaged dual.
    batch_size : int, default=1
        b, examples per iteration; from 1 to n_samples.
    sigma_squared : float, default=1.0
        See `spectral_norm_squared`; the default is the worst case.

    Returns
    -------
    counts : IterationCounts

    Notes
    -----
    For rows with |x_i| <= 1, starting from zero duals:
    t_0 >= (n / b) log(2 alpha n / beta), T_0 >= t_0 + (beta / b) (4 / (alpha epsilon) - 2 n / beta)
    and T >= T_0 + max(n / b, beta / (b alpha epsilon)), with beta = beta_b.

    References
    ----------
    Takac, Bijral, Richtarik, Srebro, "Mini-batch primal and dual methods for SVMs", 2013,
    Theorem 2.

    Examples
    --------
    >>> from sublinear.theory import minibatch_sdca_iterations
    >>> minibatch_sdca_iterations(1000, 0.01, 0.001).total
    500996
    >>> minibatch_sdca_iterations(1000, 0.01, 0.001, batch_size=10, sigma_squared=0.01).total
    54147
    """
    check_number("alpha", alpha, low=0, open_low=True)
    check_number("epsilon", epsilon, low=0, open_low=True)
    beta = safe_beta(n_samples, batch_size, sigma_squared)
    # NumPy's integers overflow in products
    n, b, alpha = int(n_samples), int(batch_size), float(alpha)
    least = max(alpha * float(epsilon), sys.float_info.min)
    warm_up = max(0, _ceil(n / b * math.log(2 * alpha * n / beta)))
    averaging_from = warm_up + max(0, _ceil(beta / b * (4 / least - 2 * n / beta)))
    total = averaging_from + _ceil(max(_ceil(n / b), beta / (b * least)))
    return IterationCounts(warm_up, averaging_from, total)


def _ceil(value):
    """Round up to an integer; ValueError if there is none so large."""
    if not math.isfinite(value):
        raise ValueError("these parameters need more steps than floating-point numbers can tell")
    return math.ceil(value)


@dataclass(frozen=True)
class StreamingSVRGParameters:
    """Parameters of Streaming SVRG.

    Attributes
    ----------
    step : float
        eta, in units of 1 / smoothness.
    inner_steps : int
        m, the most inner steps of a stage.
    first_stage : int
        k_0, rows of the first stage's gradient; each later stage has `growth` times as many.

    Examples
    --------
    >>> from sublinear.theory import StreamingSVRGParameters
    >>> StreamingSVRGParameters(step=0.1, inner_steps=100, first_stage=50)
    StreamingSVRGParameters(step=0.1, inner_steps=100, first_stage=50)
    """

    step: float
    inner_steps: int
    first_stage: int


def streaming_svrg_parameters(condition, *, growth=3.0, order=2.0, hessian_ratio=1.0):
    """Return the parameters with which Streaming SVRG has its proven rate.

    With them, from the error e_0, after s >= (p + 1)^2 stages, which read N rows at the most,
    E[P(w) - P*] <= ((1 + 4 / b) sqrt(a) sigma / sqrt(N) + sqrt(e_0) (a kappa / N)^(p / 2))^2,
    where N = m s + k_0 (1 + b + .. + b^(s - 1)). Before that the bound may be false.

    The bound is the paper's, and so are eta and m. k_0 = 20 a kappa b^(p + 1) and the condition on
    s are derived from the paper's bound for a single stage.

    Parameters
    ----------
    condition : float
        kappa = L / mu.
    growth, order : float
        b >= 3 and p >= 2 of the proof.
    hessian_ratio : float, default=1.0
        a: the Hessian of P is nowhere less than 1 / a of that at the optimum. 1 for least squares,
        and at most `condition`.

    Returns
    -------
    parameters : StreamingSVRGParameters

    References
    ----------
    Frostig, Ge, Kakade, Sidford, 2015, the corollary on bounded Hessians.

    Examples
    --------
    >>> from sublinear.theory import streaming_svrg_parameters
    >>> parameters = streaming_svrg_parameters(10)
    >>> parameters.inner_steps, parameters.first_stage
    (2916000, 5400)
    """
    check_number("condition", condition, low=1)
    check_number("growth", growth, low=3)
    check_number("order", order, low=2)
    check_number("hessian_ratio", hessian_ratio, low=1)
    with np.errstate(over="ignore"):
        inverse_step = float(20 * np.float64(growth) ** (order + 1))
    inner_steps = _ceil(inverse_step * float(condition) * inverse_step)
    first_stage = _ceil(float(hessian_ratio) * float(condition) * inverse_step)
    return StreamingSVRGParameters(1 / inverse_step, inner_steps, first_stage)
