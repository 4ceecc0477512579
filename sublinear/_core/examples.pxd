"""What dual coordinate ascent keeps of every example: dual, curvature, how long it sleeps."""
from libc.math cimport fabs
from libc.stdint cimport uint8_t, uint32_t

from sublinear._core.line cimport LINE_AHEAD, Lines
from sublinear._core.losses cimport Loss
from sublinear._core.objective cimport Objective
from sublinear._core.packed cimport PackedRows, Record, record_at
from sublinear._core.portable cimport prefetch

cdef enum:
    LEVEL_BITS = 3        # of a byte of `sleep`: the level; the rest counts the passes to sleep
    SAMPLED = 9           # one example in so many enters the estimate of the gap,
    HEAVY = 16            # and all that weigh so many times the mean: few, that may hold most of it
    VISITS = 256          # steps, at most, before `settle` looks at what they leave behind

# What `sleep` becomes, by level, where a dual does not move. Level 5 is the last. Two levels may be
# skipped; the two after these only keep a byte that a damaged checkpoint brought from leading out
# of the table. To skip a level, a dual has to be that far from moving, in units of the loss, by
# level: farther if it has not stayed before.
cdef extern from *:
    """
    #define SUBLINEAR_LONGEST (5 | 31 << 3)
    static const unsigned char sublinear_bedtimes[] = {
        1, 2 | 1 << 3, 3 | 3 << 3, 4 | 7 << 3, 5 | 15 << 3, SUBLINEAR_LONGEST, SUBLINEAR_LONGEST,
        SUBLINEAR_LONGEST, SUBLINEAR_LONGEST, SUBLINEAR_LONGEST
    };
    static const double sublinear_far[] = {1.5, 1, 1, 1, 1, 1, 1, 1};
    """
    const uint8_t* BEDTIMES "sublinear_bedtimes"
    const double* FAR "sublinear_far"

cdef struct Example:
    double dual
    double curvature      # s_i |x_i|^2 / (alpha W)

# What steps over a few examples leave behind. It is seen to in a loop of its own, as each step
# waits for the one before: processors work ahead meanwhile, but not past too many operations.
cdef struct Visits:
    double before[VISITS]        # the dual
    double after[VISITS]
    double prediction[VISITS]    # before the step
    double target[VISITS]

# Sums over the sampled examples of a pass.
cdef struct Sample:
    double gap
    double loss
    double gain           # of the dual, by their steps


cdef inline void clear(Sample* sample) noexcept nogil:
    sample.gap = sample.loss = sample.gain = 0


cdef class Examples:
    cdef readonly Objective objective
    cdef readonly PackedRows packed        # None: rows are those of the matrix
    cdef Lines* rows
    cdef object buffer                     # of the Examples
    cdef Example* example                  # NULL: they are in the records of packed rows
    cdef Loss loss
    cdef double per_far                    # 1 / far of the loss
    cdef double heavy                      # the weight from which on examples are always sampled
    cdef uint8_t[::1] sleep

    cdef double _start_block(
        self, Py_ssize_t first, Py_ssize_t last, const double* start) noexcept nogil

    cdef inline Example* at(self, Py_ssize_t i) noexcept nogil:
        if self.example == NULL:
            return <Example*> record_at(self.packed, i)    # a Record begins like an Example
        return &self.example[i]

    cdef inline double target(self, const Example* example, Py_ssize_t i) noexcept nogil:
        if self.example == NULL:
            return (<const Record*> example).target
        return self.objective.targets[i]

    cdef inline void prefetch_state(
        self, const uint32_t* draws, Py_ssize_t position, Py_ssize_t ready
    ) noexcept nogil:
        """Ask for what lies apart from the rows, LINE_AHEAD draws after `position`."""
        if self.example != NULL and position + LINE_AHEAD < ready:
            prefetch(&self.example[draws[position + LINE_AHEAD]])
            prefetch(&self.objective.targets[draws[position + LINE_AHEAD]])

    cdef inline void settle(
        self, Sample* sums, const uint32_t* items, Py_ssize_t first, Py_ssize_t count,
        const Visits* visits
    ) noexcept nogil:
        """See to what steps over examples, the draws from `first` on, have left behind."""
        self._put_to_sleep(items, count, visits)
        self._sample(sums, items, first, count, visits)

    cdef inline void _put_to_sleep(
        self, const uint32_t* items, Py_ssize_t count, const Visits* visits
    ) noexcept nogil:
        """Let examples sleep 2^level - 1 passes, one level more each time, unless they moved.

        One or two levels more still if the residual, prediction - target, says that one will not
        for long. Without branches: which examples move is hard to foresee.
        """
        cdef Py_ssize_t k
        cdef double distance
        cdef uint8_t* sleep
        cdef int level, skipped
        cdef bint stayed
        for k in range(count):
            sleep = &self.sleep[items[k]]
            distance = fabs(visits.prediction[k] - visits.target[k]) * self.per_far
            level = sleep[0] & 7
            skipped = (distance > FAR[level]) + (distance > 2 * FAR[level])
            stayed = visits.after[k] == visits.before[k]
            sleep[0] = <uint8_t> (BEDTIMES[level + skipped] * stayed)

    cdef inline void _sample(
        self, Sample* sums, const uint32_t* items, Py_ssize_t first, Py_ssize_t count,
        const Visits* visits
    ) noexcept nogil:
        """Count those of the examples that are sampled."""
        cdef bint weighted = self.objective.weights != NULL
        cdef Py_ssize_t k = 0 if weighted else (SAMPLED - first % SAMPLED) % SAMPLED
        while k < count:
            if not weighted or (first + k) % SAMPLED == 0 or (
                    self.objective.weights[items[k]] >= self.heavy):
                self._count(sums, items[k], k, visits)
            k += 1 if weighted else SAMPLED

    cdef inline void _count(
        self, Sample* sums, Py_ssize_t i, Py_ssize_t k, const Visits* visits
    ) noexcept nogil:
        """Count an example's term of the gap, l(z) + l*(-a) + a z, and its step."""
        cdef double before = visits.before[k], after = visits.after[k], change = after - before
        cdef double prediction = visits.prediction[k], target = visits.target[k]
        cdef double weight = self.objective.weight(i)
        cdef double loss = self.loss.value(prediction, target)
        cdef double conjugate = self.loss.conjugate(before, target)
        if weight >= self.heavy:
            weight /= SAMPLED    # it stands for itself alone
        sums.loss += weight * loss
        sums.gap += weight * (loss + conjugate + before * prediction)
        sums.gain += weight * (
            conjugate - self.loss.conjugate(after, target)
            - change * (prediction + self.at(i).curvature * change / 2))


cdef Py_ssize_t collect_awake(
    uint8_t* sleep, Py_ssize_t count, uint32_t* items, uint32_t first) noexcept nogil


# The mean of w over a pass, its beginning left out.
cdef class PassMean:
    cdef Py_ssize_t interval      # examples between two w that count; 0: no mean is kept
    cdef Py_ssize_t next          # the position in the pass of the next one
    cdef Py_ssize_t count
    cdef bint is_over             # it is that of the last pass
    cdef double[::1] total

    cdef void restart(self, Py_ssize_t pass_length) noexcept nogil
    cdef void add(self, const double* w) noexcept nogil
