"""Permutations of a pass and systematic samples, as sublinear._core.order draws them.

below(n) draws from {0, .., n - 1}; the functions of it return one that shuffles an array.
"""

from fractions import Fraction

import numpy as np


def fisher_yates(below):
    """Return the uniform shuffle."""

    def shuffled(examples):
        examples = examples.copy()
        for k in range(len(examples)):
            other = k + below(len(examples) - k)
            examples[[k, other]] = examples[[other, k]]
        return examples

    return shuffled


def in_pools(below, run, pool):
    """Return the shuffle in pools made of runs of neighbours."""
    shuffled = fisher_yates(below)

    def pooled(examples):
        n = len(examples)
        runs = [examples[k : k + run] for k in range(0, n - n % run, run)]
        chosen, drawn = [], []
        while len(drawn) < n:
            while len(chosen) < min(n, len(drawn) + pool):
                if not runs:
                    chosen.extend(examples[n - n % run :])
                    break
                other = below(len(runs))
                runs[0], runs[other] = runs[other], runs[0]
                chosen.extend(runs.pop(0))
            drawn.extend(shuffled(np.array(chosen[len(drawn) : len(drawn) + pool])))
        return np.array(drawn)

    return pooled


def systematic(weights, count, offset):
    """Return the examples at the places (k + offset) / count of a line, as long as its weights."""
    ends = np.cumsum([Fraction(weight) for weight in weights])
    places = [(k + Fraction(offset)) * ends[-1] / count for k in range(count)]
    return np.array([int(np.sum(ends <= place)) for place in places])
