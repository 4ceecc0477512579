"""The schedules of SDCA for two threads, one pass from zero duals, followed by hand."""

import numpy as np


def dense_rows(objective):
    """The rows of the objective's matrix with their constant entry."""
    matrix = objective.matrix
    width = matrix.n_weights
    rows = np.zeros((matrix.n_rows, width))
    for i in range(matrix.n_rows):
        matrix.add_rows(np.ones(1), np.array([i]), rows[i])
    return rows


def step(objective, rows, i, duals, prediction):
    """Maximise the dual over a_i; return what to add to w, in units of row i."""
    weights = objective.weights_array
    weight = 1.0 if weights is None else weights[i]
    scale = weight / (objective.alpha * objective.total_weight)
    curvature = max(1e-300, scale * rows[i] @ rows[i])
    target = objective.targets_array[i]
    new = objective.loss.dual_steps([duals[i]], [prediction], [target], [curvature])[0]
    change, duals[i] = new - duals[i], new
    return scale * change


def row_halves(objective, permutations, block):
    """Each half works on its own w; after a block it learns what the other did meanwhile."""
    rows = dense_rows(objective)
    duals = np.zeros(len(rows))
    w = [np.zeros(rows.shape[1]) for _ in range(2)]
    n_blocks = max(-(-len(permutation) // block) for permutation in permutations)
    for b in range(n_blocks):
        before = [one.copy() for one in w]
        for h in range(2):
            for i in permutations[h][b * block : (b + 1) * block]:
                w[h] += step(objective, rows, i, duals, rows[i] @ w[h]) * rows[i]
        changes = [after - start for after, start in zip(w, before, strict=True)]
        for h in range(2):
            w[h] += changes[1 - h]
    return w[0], duals


def column_halves(objective, order, group):
    """Dot products of a group of rows see the updates of all groups but the one before.

    The constant feature's part of them sees all updates.
    """
    rows = dense_rows(objective)
    constant = np.zeros_like(rows)
    constant[:, objective.matrix.n_columns :] = rows[:, objective.matrix.n_columns :]
    duals = np.zeros(len(rows))
    w = np.zeros(rows.shape[1])
    groups = [order[g : g + group] for g in range(0, len(order), group)]
    products = []
    for now, before in zip([*groups, []], [[], *groups], strict=True):
        ready, products = products, [(rows[i] - constant[i]) @ w for i in now]
        for i, product in zip(before, ready, strict=True):
            w += step(objective, rows, i, duals, product + constant[i] @ w) * rows[i]
    return w, duals
