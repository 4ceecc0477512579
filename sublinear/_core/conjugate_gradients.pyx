"""Conjugate gradients for several right sides at once, which share the passes over the rows."""
from cpython.exc cimport PyErr_CheckSignals

import numpy as np

from sublinear._core.dense_lines cimport dense_dot64
from sublinear._core.kept_rows cimport KeptRows

cdef enum:
    STEPS = 100
    WORK_AT_ONCE = 1 << 24    # entries times vectors between two looks for Ctrl-C

MOST_STEPS = STEPS


def conjugate_gradients(
    KeptRows rows, const double[::1] curvatures, shift, const double[::1] units, right,
    double tolerance, double gained=0
):
    """Solve (sum_i c_i x_i x_i' + diag(shift)) u = right, all in units of the features.

    Other threads run meanwhile, but for products of several vectors with dense rows, and for looks
    at Ctrl-C.

    Parameters
    ----------
    rows : KeptRows
        The x_i.
    curvatures : ndarray of shape (n_rows,)
    shift : float or ndarray of shape (n_weights,)
    units : ndarray of shape (n_weights,)
        By which the matrix is divided from both sides.
    right : ndarray of shape (n_weights,) or (n_weights, n_systems)
    tolerance, gained : float
        A system is solved once `tolerance` is left of the right side, or no more than half of it
        and a step adds no more than `gained` to right' solution. It also ends where a direction has
        no curvature, and after `MOST_STEPS`.

    Returns
    -------
    solution, rest : ndarray of the shape of right
        The rest is what is left of the right side.
    """
    cdef double[:, ::1] rest = np.array(right, dtype=np.float64, order="C").reshape(len(units), -1)
    cdef double[:, ::1] direction = rest.copy(), scaled = np.empty_like(rest)
    cdef double[:, ::1] solution = np.zeros_like(rest), image = np.empty_like(rest)
    cdef double[::1] shifts = np.array(np.broadcast_to(shift, len(units)), dtype=np.float64)
    cdef Py_ssize_t c, n_systems = rest.shape[1], n_going = n_systems, steps = 0
    cdef double work = 0, more_work = <double> rows.matrix.n_stored * n_systems
    cdef double[:, ::1] numbers = np.zeros((8, n_systems))    # one for each system
    cdef double[::1] curvature = numbers[0], length = numbers[1], growth = numbers[2]
    cdef double[::1] squares = numbers[3], enough = numbers[4], half = numbers[5]
    cdef double[::1] before = numbers[6], factors = numbers[7]
    cdef unsigned char[::1] going = np.ones(n_systems, dtype=np.uint8)
    with nogil:
        dots(rest, rest, squares)
        for c in range(n_systems):
            enough[c], half[c] = tolerance**2 * squares[c], squares[c] / 4
            going[c] = squares[c] > enough[c]
            n_going -= not going[c]
        while n_going > 0 and steps < STEPS:
            divide(direction, units, scaled)
            image[:] = 0
            rows.add_products(curvatures, scaled, image, factors)
            add_multiples(scaled, shifts, image)
            divide(image, units, image)
            dots(direction, image, curvature)
            for c in range(n_systems):
                going[c] = going[c] and curvature[c] > 0
                length[c] = squares[c] / curvature[c] if going[c] else 0
            move(solution, direction, length, 1)
            move(rest, image, length, -1)
            before[:] = squares
            dots(rest, rest, squares)
            n_going = 0
            for c in range(n_systems):
                growth[c] = squares[c] / before[c] if going[c] else 0
                going[c] = (
                    going[c] and squares[c] > enough[c]
                    and (squares[c] > half[c] or length[c] * before[c] > gained))
                n_going += going[c]
            turn(direction, rest, growth)
            steps, work = steps + 1, work + more_work
            if work > WORK_AT_ONCE:
                work = 0
                with gil:
                    PyErr_CheckSignals()
    return np.reshape(solution, right.shape), np.reshape(rest, right.shape)


cdef void dots(const double[:, ::1] a, const double[:, ::1] b, double[::1] found) noexcept nogil:
    """Those of the columns of two arrays."""
    cdef Py_ssize_t j, c
    if a.shape[1] == 1:
        found[0] = dense_dot64(&a[0, 0], &b[0, 0], a.shape[0])
        return
    found[:] = 0
    for j in range(a.shape[0]):
        for c in range(a.shape[1]):
            found[c] += a[j, c] * b[j, c]


cdef void divide(
    const double[:, ::1] a, const double[::1] units, double[:, ::1] result
) noexcept nogil:
    """result = a / units, by rows"""
    cdef Py_ssize_t j, c
    for j in range(a.shape[0]):
        for c in range(a.shape[1]):
            result[j, c] = a[j, c] / units[j]


cdef void add_multiples(
    const double[:, ::1] a, const double[::1] factors, double[:, ::1] b
) noexcept nogil:
    """b += factors * a, by rows"""
    cdef Py_ssize_t j, c
    for j in range(a.shape[0]):
        for c in range(a.shape[1]):
            b[j, c] += factors[j] * a[j, c]


cdef void move(
    double[:, ::1] a, const double[:, ::1] b, const double[::1] lengths, double sign
) noexcept nogil:
    """a += sign * lengths * b, by columns"""
    cdef Py_ssize_t j, c
    for j in range(a.shape[0]):
        for c in range(a.shape[1]):
            a[j, c] += sign * lengths[c] * b[j, c]


cdef void turn(
    double[:, ::1] direction, const double[:, ::1] rest, const double[::1] growth
) noexcept nogil:
    """direction = rest + growth * direction, by columns"""
    cdef Py_ssize_t j, c
    for j in range(rest.shape[0]):
        for c in range(rest.shape[1]):
            direction[j, c] = rest[j, c] + growth[c] * direction[j, c]
