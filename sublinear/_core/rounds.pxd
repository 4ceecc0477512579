"""Rounds: steps whose sizes follow from how many there are, each round longer than the last one."""


cdef struct Rounds:
    Py_ssize_t length      # steps of this round
    Py_ssize_t taken       # of them
    Py_ssize_t growth      # how many times as long the next one is; 1: there is none
    Py_ssize_t left        # steps of this round and of all to come


cdef inline void begin_round(Rounds* rounds, Py_ssize_t length) noexcept nogil:
    """Begin a round of so many steps, or as many as are left."""
    rounds.left -= rounds.taken
    rounds.length = min(length, rounds.left)
    rounds.taken = 0


cdef inline Rounds first_round(
    Py_ssize_t length, Py_ssize_t growth, Py_ssize_t most
) noexcept nogil:
    """Return the first of rounds that take `most` steps together at most."""
    cdef Rounds rounds
    rounds.taken, rounds.growth, rounds.left = 0, growth, most
    begin_round(&rounds, length)
    return rounds


cdef inline bint is_over(const Rounds* rounds) noexcept nogil:
    return rounds.taken >= rounds.length


cdef inline bint begin_longer(Rounds* rounds) noexcept nogil:
    """Begin the next round, and tell whether there is one."""
    if rounds.growth == 1 or rounds.left <= rounds.taken:
        return False
    begin_round(rounds, rounds.growth * rounds.length)
    return True
