"""Linear chains and Pegasos on them, in NumPy: Viterbi row by row; rows dense or CSR.

Weights are a dict of `transition` (k, k), `start` (k,) and `emission` (d, k).
"""

import itertools

import numpy as np
from scipy import sparse


def zeros(d, k):
    return {"transition": np.zeros((k, k)), "start": np.zeros(k), "emission": np.zeros((d, k))}


def from_array(array, k):
    """Take the array of the compiled solver apart."""
    return {"transition": array[:k], "start": array[k], "emission": array[k + 1 :]}


def norm_squared(w):
    return sum(np.sum(part**2) for part in w.values())


def score(w, X, y):
    emitted = sum((X[t] @ w["emission"])[y[t]] for t in range(len(y)))
    return w["start"][y[0]] + emitted + w["transition"][y[:-1], y[1:]].sum()


def viterbi(w, X, labels=None):
    """The labels with the best score; with `labels`, every one that differs adds 1 to it."""
    emission = X @ w["emission"]
    if labels is not None:
        emission = emission + 1
        emission[np.arange(len(labels)), labels] -= 1
    best = w["start"] + emission[0]
    back = np.zeros(emission.shape, dtype=int)
    for t in range(1, len(emission)):
        candidates = best[:, None] + w["transition"]
        back[t] = candidates.argmax(axis=0)
        best = candidates.max(axis=0) + emission[t]
    path = np.empty(len(emission), dtype=int)
    path[-1] = best.argmax()
    for t in range(len(emission) - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path


def brute_force(w, X, labels=None):
    """As `viterbi`, by trying all labels."""

    def value(path):
        errors = 0 if labels is None else np.sum(np.array(path) != labels)
        return errors + score(w, X, np.array(path))

    k = w["start"].shape[0]
    return np.array(max(itertools.product(range(k), repeat=len(X)), key=value))


def losses(w, sequences):
    """The hinge loss of every sequence (X, labels)."""
    found = [(viterbi(w, X, y), X, y) for X, y in sequences]
    return np.array([np.sum(p != y) + score(w, X, p) - score(w, X, y) for p, X, y in found])


def shares(weights, n):
    return np.full(n, 1 / n) if weights is None else weights / weights.sum()


def primal(w, sequences, alpha, weights=None):
    mean = shares(weights, len(sequences)) @ losses(w, sequences)
    return alpha / 2 * norm_squared(w) + mean


def add_path(w, X, path, factor):
    """w += factor * phi(X, path)"""
    w["start"][path[0]] += factor
    np.add.at(w["transition"], (path[:-1], path[1:]), factor)
    X = sparse.csr_array(X)
    labels = np.repeat(path, np.diff(X.indptr))
    np.add.at(w["emission"], (X.indices, labels), factor * X.data)


def chain_pegasos(sequences, d, k, alpha, batches, weights=None):
    """Yield the weights after every step; `batches` gives the sequences of each."""
    ratios = len(sequences) * shares(weights, len(sequences))
    w, drawn = zeros(d, k), 0
    for batch in batches:
        paths = [viterbi(w, *sequences[i]) for i in batch]
        drawn += len(batch)
        for part in w.values():
            part *= 1 - len(batch) / drawn
        for i, path in zip(batch, paths, strict=True):
            X, labels = sequences[i]
            rate = ratios[i] / (alpha * drawn)
            add_path(w, X, labels, rate)
            add_path(w, X, path, -rate)
        yield {name: part.copy() for name, part in w.items()}


def as_array(w):
    return np.vstack([w["transition"], w["start"], w["emission"]])
