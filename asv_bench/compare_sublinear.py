"""Time the sublinear methods against their peers, to the same accuracy, on dense generated data.

    python asv_bench/compare_sublinear.py margin [--sizes 1024 2048 4096] [--json FILE]
    python asv_bench/compare_sublinear.py ball
    python asv_bench/compare_sublinear.py game [--sizes 2000]

margin: float32, n = d, planted margin 0.1 (planted.py). Reached: a least margin of 0.09 with
    |w| = 1, measured apart from the fits. SublinearPerceptron with a certificate of epsilon=0.01,
    and without one at the fewest steps of a grid that reach it for all seeds; SDCAClassifier at the
    alpha that needs the fewest passes; one epoch of SGDClassifier, at the alpha with the largest
    margin, whatever it reaches. The settings found are kept in FILE; `--tune` finds them and times
    nothing.
ball: float32, `make_enclosing_ball`; a certified relative gap of 0.01 in the squared radius.
    Badoiu-Clarkson and away-step Frank-Wolfe are compiled (enclosing_ball.c, the machine's own
    instructions); NumPy's Badoiu-Clarkson takes 100 steps and is not certified.
game: payoffs +1 and -1; a gap of 0.05, against HiGHS' interior point, which solves it exactly.

One thread for all, `--threads 2` lets NumPy's products have two; medians of fits in turns. Figures
of sizes that FILE has already are kept, unless they are measured again.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from compiled_ball import METHODS, enclosing_ball
from figures import interleaved_medians, report, seconds_of
from planted import Planted
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from sublinear import (
    MinimumEnclosingBall,
    SDCAClassifier,
    SublinearPerceptron,
    solve_matrix_game,
)
from sublinear.datasets import make_enclosing_ball

MARGIN, REACHED = 0.1, 0.09
ALPHAS = (1e-3, 1e-4, 1e-5)
PASSES = (1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50)
STEPS = tuple(round(64 * 2 ** (k / 4)) for k in range(48))
BALLS = {
    "4096 x 4096, sphere": (4096, 4096, {}),
    "4096 x 4096, leaning": (4096, 4096, {"lean": 1.0}),
    "4096 x 4096, rank 20": (4096, 4096, {"rank": 20}),
    "200000 x 3": (200_000, 3, {"support": 2e-5}),
}


class Fits:
    """The last fit of every task, so that what it reached is judged outside of the clock."""

    def __init__(self, seeds):
        self.seeds, self.last = seeds, {}

    def task(self, name, fit):
        def run(repetition):
            def timed():
                self.last[name] = fit(self.seeds[repetition % len(self.seeds)])

            return seconds_of(timed)

        return run


class Margins:
    """The fits on one planted margin."""

    def __init__(self, n):
        data = Planted(n, MARGIN)
        self.n, self.X, self.y = n, data.matrix(), data.y

    def reached(self, model):
        w = model.coef_[0]
        return float((self.y * (self.X @ w)).min() / np.linalg.norm(w.astype(np.float64)))

    def perceptron(self, **options):
        def fit(seed):
            model = SublinearPerceptron(fit_intercept=False, random_state=seed, **options)
            return model.fit(self.X, self.y)

        return fit

    def uncertified(self, steps):
        return self.perceptron(certify=None, row_norm=1.0, max_iter=steps)

    def sdca(self, alpha, passes):
        def fit(seed):
            return SDCAClassifier(
                loss="hinge",
                alpha=alpha,
                fit_intercept=False,
                tol=0.0,
                max_iter=passes,
                n_jobs=1,
                random_state=seed,
            ).fit(self.X, self.y)

        return fit

    def sgd(self, alpha):
        def fit(seed):
            return SGDClassifier(
                loss="hinge",
                alpha=alpha,
                fit_intercept=False,
                tol=None,
                max_iter=1,
                random_state=seed,
            ).fit(self.X, self.y)

        return fit

    def tune(self, seeds):
        """Return the settings that need the least; None where none of them reaches the margin."""

        def suffices(fit):
            return all(self.reached(fit(seed)) >= REACHED for seed in seeds)

        return {
            "steps": next((k for k in STEPS if suffices(self.uncertified(k))), None),
            "sdca": next(
                ([a, k] for k in PASSES for a in ALPHAS if suffices(self.sdca(a, k))), None
            ),
            "sgd": max(ALPHAS, key=lambda alpha: self.reached(self.sgd(alpha)(seeds[0]))),
        }

    def fits(self, settings):
        """Return {solver: (setting, fit)}."""
        fits = {}
        if settings["steps"] is not None:
            fits[UNCERTIFIED] = f"max_iter={settings['steps']}", self.uncertified(settings["steps"])
        fits["SublinearPerceptron, certified"] = (
            "epsilon=0.01",
            self.perceptron(epsilon=MARGIN - REACHED),
        )
        if settings["sdca"] is not None:
            alpha, passes = settings["sdca"]
            fits["SDCAClassifier"] = (
                f"alpha={alpha:g}, {passes} passes",
                self.sdca(alpha, passes),
            )
        fits["SGDClassifier, one epoch"] = f"alpha={settings['sgd']:g}", self.sgd(settings["sgd"])
        return fits

    def outcome(self, model):
        result = getattr(model, "result_", None)
        read = self.X.size if result is None else result.accesses + result.certificate_accesses
        return {"margin": self.reached(model), "passes": read / self.X.size}


def compare_margins(n, options, settings):
    """Yield one dict for each solver."""
    margins = Margins(n)
    if str(n) not in settings:
        settings[str(n)] = margins.tune(range(options.seeds))
    if not options.tune:
        yield from timed(n, margins.fits(settings[str(n)]), margins.outcome, options)


def compare_balls(kind, options, settings):
    n_rows, n_columns, shape = BALLS[kind]
    data = make_enclosing_ball(n_rows, n_columns, dtype=np.float32, random_state=0, **shape)

    def numpy_steps(seed, X=data.X):
        """100 steps of Badoiu and Clarkson."""
        squares = np.einsum("ij,ij->i", X, X)
        centre = X[0].copy()
        for k in range(1, 101):
            far = (squares - 2 * (X @ centre)).argmax()
            centre += (X[far] - centre) / (k + 1)
        return centre, 100

    fits = {
        "MinimumEnclosingBall": (
            "epsilon=0.01",
            lambda seed: MinimumEnclosingBall(epsilon=0.01, random_state=seed).fit(data.X),
        ),
        "Badoiu-Clarkson, NumPy": ("100 steps", numpy_steps),
    }
    for method in METHODS:
        fits[f"{method}, compiled"] = (
            "gap 0.01",
            lambda seed, method=method: enclosing_ball(data.X, method, 0.01)[::2],
        )

    def outcome(found):
        """The squared radius against the optimum, from the centre alone."""
        if isinstance(found, tuple):
            centre, passes = found[0], found[1]
        else:
            result = found.result_
            centre = found.center_
            passes = (result.accesses + result.certificate_accesses) / data.X.size
        distances = np.linalg.norm(data.X - centre.astype(np.float32), axis=1)
        excess = float(distances.max()) ** 2 / data.radius**2 - 1
        return {"excess": excess, "passes": float(passes)}

    yield from timed(kind, fits, outcome, options)


LOOSE = 0.01  # a relative gap at which HiGHS may end


def compare_games(n, options, settings):
    A = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), (n, n))

    def interior_point(seed, tolerance=1e-8):
        found = linprog(
            np.r_[np.zeros(n), 1],
            A_ub=np.c_[A, -np.ones(n)],
            b_ub=np.zeros(n),
            A_eq=np.r_[np.ones(n), 0][None],
            b_eq=[1],
            bounds=[(0, None)] * n + [(None, None)],
            method="highs-ipm",
            options={"ipm_optimality_tolerance": tolerance},
        )
        return found.x[:n], -found.ineqlin.marginals

    def ours(seed):
        result = solve_matrix_game(A, epsilon=0.05, random_state=seed)
        return result.column_strategy, result.row_strategy, result

    def outcome(found):
        """The gap of the two strategies, from the payoffs."""
        x, p = (np.maximum(s, 0) / np.maximum(s, 0).sum() for s in found[:2])
        passes = None
        if len(found) == 3:
            passes = (found[2].accesses + found[2].certificate_accesses) / A.size
        return {"gap": float((A @ x).max() - (p @ A).min()), "passes": passes}

    yield from timed(n, {"solve_matrix_game": ("epsilon=0.05", ours)}, outcome, options)
    if not options.ours:
        interior = {
            "HiGHS interior point": ("exact", interior_point),
            "HiGHS interior point, loose": (
                f"tolerance {LOOSE:g}",
                lambda seed: interior_point(seed, LOOSE),
            ),
        }
        yield from timed(n, interior, outcome, options, 1)


def timed(size, fits, outcome, options, repetitions=None):
    """Time fits in turns; yield what each needed and reached."""
    kept = Fits(range(options.seeds))
    tasks = {name: kept.task(name, fit) for name, (_, fit) in fits.items()}
    if repetitions is None:
        repetitions = options.repetitions
        for task in tasks.values():
            task(0)  # what is loaded at the first call
    medians = interleaved_medians(tasks, repetitions)
    for name, (setting, _) in fits.items():
        yield {
            "size": size,
            "solver": name,
            "setting": setting,
            "seconds": medians[name],
            **outcome(kept.last[name]),
        }


UNCERTIFIED = "SublinearPerceptron, not certified"
PARTS = {
    # comparison, sizes, the solver that the others are compared with, what is reached
    "margin": (compare_margins, (1024, 2048, 4096, 8192), UNCERTIFIED, "margin"),
    "ball": (compare_balls, tuple(BALLS), "MinimumEnclosingBall", "excess"),
    "game": (compare_games, (2000,), "solve_matrix_game", "gap"),
}


def table(figures, baseline, reached):
    """Yield the table's rows."""
    seconds = {one["size"]: one["seconds"] for one in figures if one["solver"] == baseline}
    for one in figures:
        ratio = one["seconds"] / seconds[one["size"]] if one["size"] in seconds else None
        yield [
            one["size"],
            one["solver"],
            one["setting"],
            f"{one[reached]:.3g}",
            "-" if one["passes"] is None else f"{one['passes']:.2f}",
            f"{one['seconds']:.4f}",
            "-" if ratio is None else f"{ratio:.1f}",
        ]


def exponents(figures):
    """How the seconds of every solver grow with the size, where there are several."""
    found = {}
    for name in dict.fromkeys(one["solver"] for one in figures):
        points = [(one["size"], one["seconds"]) for one in figures if one["solver"] == name]
        if len(points) > 1 and not isinstance(points[0][0], str):
            found[name] = float(np.polyfit(*np.log(np.transpose(points)), 1)[0])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="threads of NumPy's products")
    parser.add_argument("--tune", action="store_true", help="find settings, time nothing")
    parser.add_argument("--ours", action="store_true", help="keep the other solver's figures")
    options = parser.parse_args()
    compare, sizes, baseline, reached = PARTS[options.part]
    if options.sizes and not isinstance(sizes[0], int):
        parser.error(f"{options.part} has problems of given sizes: leave out --sizes")
    path = options.json or Path(f"compare_sublinear_{options.part}.json")
    known = json.loads(path.read_text()) if path.is_file() else {"fits": [], "settings": {}}
    fits, settings = known["fits"], known["settings"]
    with threadpool_limits(options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for size in options.sizes or sizes:
            new = list(compare(size, options, settings))
            again = {(one["size"], one["solver"]) for one in new}
            fits = [one for one in fits if (one["size"], one["solver"]) not in again] + new
    order = list(dict.fromkeys([*sizes, *sorted(one["size"] for one in fits)]))
    fits.sort(key=lambda one: order.index(one["size"]))
    header = ["size", "solver", "setting", reached, "passes read", "seconds", f"this / {baseline}"]
    report(
        header,
        list(table(fits, baseline, reached)),
        path,
        {
            "part": options.part,
            "threads": options.threads,
            "settings": settings,
            "exponents": exponents(fits),
            "fits": fits,
        },
    )


if __name__ == "__main__":
    main()
