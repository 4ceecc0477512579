"""Count how often fits without a proof miss epsilon on inputs that are hard for them.

    python asv_bench/measure_misses.py [--seeds 50] [--json ..]

Fits take the steps that epsilon asks for and end with a certificate. `missed` is the part of the
seeds whose value is farther than epsilon from the optimum; for games and the generic method, those
whose gap is larger.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from figures import report
from sklearn.exceptions import ConvergenceWarning

from sublinear import (
    MinimumEnclosingBall,
    SublinearPerceptron,
    solve_matrix_game,
    solve_primal_dual,
    solve_simplex_qp,
)
from sublinear.datasets import make_planted_margin
from sublinear.primal_dual import BallStep, L1Sampler, L2Sampler, MeanStep, SimplexStep

EPSILONS = (0.3, 0.1, 0.03)
HEADER = ["problem", "epsilon", "missed", "median error / epsilon", "largest"]


def one_row_at_an_angle():
    X = np.tile([1.0, 0.0], (1000, 1))
    X[-1] = -0.5, np.sqrt(0.75)
    y = np.where(np.arange(1000) % 2, 1, -1)
    return X * y[:, None], y


def margin(data):
    """Return a function of epsilon and the seed: how far a margin is from the largest."""
    X, y = data
    proof = SublinearPerceptron(0.001, fit_intercept=False, max_iter=10**7, random_state=0)
    largest = proof.fit(X, y).result_.primal

    def error(epsilon, seed):
        model = SublinearPerceptron(
            epsilon, certify="exact", fit_intercept=False, random_state=seed
        )
        return largest - model.fit(X, y).result_.primal

    return error


def ball(X):
    least = MinimumEnclosingBall(1e-6).fit(X).result_.dual

    def error(epsilon, seed):
        model = MinimumEnclosingBall(epsilon, certify="exact", random_state=seed)
        return model.fit(X).result_.primal / least - 1

    return error


def program(X, b, **kernel):
    """Epsilon is relative to the larger of the longest row's square and the range of b."""
    unit = max((X**2).sum(axis=1).max() if not kernel else 1.0, np.ptp(b))
    least = solve_simplex_qp(X, b, unit / 1000, random_state=0, max_iter=10**7, **kernel).dual

    def error(epsilon, seed):
        result = solve_simplex_qp(
            X, b, epsilon * unit, certify="exact", random_state=seed, **kernel
        )
        return (result.primal - least) / unit

    return error


def game(A):
    return lambda epsilon, seed: (
        solve_matrix_game(A, epsilon, certify="exact", random_state=seed).gap
    )


def generic(step, sampler, *data, **options):
    """As game, of problems for solve_primal_dual."""

    def error(epsilon, seed):
        blocks = step(*data), sampler(*data, **options)
        return solve_primal_dual(*blocks, epsilon, certify="exact", random_state=seed).gap

    return error


def problems():
    """Yield names and functions of epsilon and a seed."""
    random = np.random.default_rng(0)
    yield "margin: 999 equal rows, one at 120 degrees", margin(one_row_at_an_angle())
    for n, d, planted in ((20, 500, 0.1), (1000, 10, 0.05)):
        data = make_planted_margin(n, d, margin=planted, random_state=0)[:2]
        yield f"margin: planted {planted}, {n} x {d}", margin(data)
    points = 0.01 * random.normal(size=(1000, 5))
    points[0] = 1, 0, 0, 0, 0
    yield "ball: 999 points near 0, one at distance 1", ball(points)
    yield "ball: the same, 3 from the origin", ball(points + np.eye(5)[0] * 3)
    pair = 0.3 * random.normal(size=(2000, 3))
    pair[:2] = [1, 0, 0], [-1, 0, 0]
    yield "ball: 2000 points in three columns", ball(pair)
    X, b = random.normal(size=(50, 5)), random.normal(size=50)
    yield "program: 50 x 5", program(X, b)
    yield "program: b a hundred times as large", program(X, 100 * b)
    yield "program: kernel, b as large", program(X, b, kernel="rbf", gamma=0.3)
    needle = np.ones((1, 1000))
    needle[0, -1] = -1
    yield "game: one good column of 1000", game(needle)
    yield "game: 2 x 1000, uniform payoffs", game(random.uniform(-1, 1, size=(2, 1000)))
    for n in (3, 10, 100):
        signs = random.choice([-1.0, 1.0], size=(n, n))
        yield f"game: signs, {n} x {n}", game(signs)
        yield f"generic: the same game, {n} x {n}", generic(SimplexStep, L1Sampler, signs)
    X, y = one_row_at_an_angle()
    yield "generic: margin of the rows above", generic(BallStep, L2Sampler, X * y[:, None])
    blocks = MeanStep, L2Sampler, pair, -(pair**2).sum(axis=1)
    yield "generic: ball, 2000 points", generic(*blocks, quadratic=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--json", type=Path, default=Path("measure_misses.json"))
    arguments = parser.parse_args()
    rows = []
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, error in problems():
        for epsilon in EPSILONS:
            errors = [error(epsilon, seed) / epsilon for seed in range(arguments.seeds)]
            missed = f"{100 * np.mean(np.array(errors) > 1):.0f} %"
            rows.append([name, epsilon, missed, f"{np.median(errors):.2f}", f"{max(errors):.2f}"])
    report(HEADER, rows, arguments.json, {"misses": rows})


if __name__ == "__main__":
    main()
