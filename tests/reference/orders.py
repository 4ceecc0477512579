"""Permutations of a pass, as sublinear._core.order draws them.

below(n) draws from {0, .., n - 1}; each function returns one that shuffles an array.
"""

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
