"""The semi-streaming perceptron and ball: Clarkson, Hazan, Woodruff (2010), section V, in NumPy.

The same passes as the compiled solver, over a whole array of scaled rows (times their labels); the
sketches hash as it does, so that the same draws make the same choices.
"""

import numpy as np

MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hashed(seed, d):
    return [mix(seed ^ mix(j)) for j in range(d)]


def exponentials(seed, d):
    return -np.log((np.array([h >> 12 for h in hashed(seed, d)]) + 0.5) * 2.0**-52)


class CountSketch:
    """Depth rows of width counters of a vector given as a whole."""

    def __init__(self, seed, width, depth, vector):
        d = len(vector)
        self.count = np.zeros((depth, width))
        self.bucket = np.zeros((depth, d), dtype=int)
        self.sign = np.zeros((depth, d))
        for r in range(depth):
            hashes = hashed(mix((seed + r) & MASK), d)
            self.bucket[r] = [h % width for h in hashes]
            self.sign[r] = [1 if h >> 63 else -1 for h in hashes]
            np.add.at(self.count[r], self.bucket[r], self.sign[r] * vector)

    def estimates(self):
        rows = np.arange(len(self.count))[:, np.newaxis]
        return np.median(self.sign * self.count[rows, self.bucket], axis=0)

    def squared_norm(self):
        return np.median((self.count**2).sum(axis=1))


def draw_coordinate(seed, width, depth, n_candidates, vector):
    """Return the coordinate of an l2 sample, None for a vector of zeros."""
    seed = mix(seed)
    e = exponentials(seed, len(vector))
    sketch = CountSketch(mix(seed), width, depth, vector / np.sqrt(e))
    candidates = np.argsort(-abs(sketch.estimates()), kind="stable")[:n_candidates]
    best = candidates[np.argmax(vector[candidates] ** 2 / e[candidates])]
    return best if vector[best] != 0 else None


def reservoirs(p, size, uniform):
    """Return `size` draws from p, as weighted reservoirs make them while p passes by."""
    chosen, threshold, total = np.zeros(size, dtype=int), np.zeros(size), 0.0
    for i, weight in enumerate(p):
        total += weight
        for k in range(size):
            if total > threshold[k]:
                chosen[k], threshold[k] = i, total / (1 - uniform())
    return chosen


def semi_streaming(A, ball, n_steps, batch_size, eta, pace, sketch, seed, uniform):
    """Yield x_s, the rows drawn in the step before it, the weights p and v_s, step by step.

    sketch is width, depth, candidates and the width of the norm's sketch.
    """
    width, depth, n_candidates, norm_width = sketch
    n, d = A.shape
    squares = (A**2).sum(axis=1) if ball else np.zeros(n)
    p, z, drawn, sum_v = np.ones(n), np.zeros(d), 0, np.zeros(n)
    chosen = reservoirs(p, batch_size, uniform)
    for s in range(n_steps):
        z = z + (s + 1) * A[chosen].sum(axis=0)
        drawn += (s + 1) * batch_size
        next_chosen = reservoirs(p, batch_size, uniform)
        of_pass = mix((seed + s + 2) & MASK)
        norm = CountSketch(of_pass, norm_width, depth, z).squared_norm()
        multiple = 1 / drawn if ball else pace / batch_size
        if not ball:
            multiple /= max(1, multiple * np.sqrt(norm))
        square = multiple**2 * norm
        v = np.zeros(n)
        for k in range(batch_size):
            j = draw_coordinate(mix((of_pass + k + 1) & MASK), width, depth, n_candidates, z)
            if j is not None:
                v += np.clip(A[:, j] * square / (multiple * z[j]), -1 / eta, 1 / eta)
        v /= batch_size
        if ball:
            v = squares - 2 * v + square
        yield multiple * z, chosen, p, v
        clipped = np.clip(v, -1 / eta, 1 / eta)
        sum_v += clipped
        p = np.exp((eta if ball else -eta) * (sum_v + 2 * clipped))
        chosen = next_chosen
