"""What a comparison shows: a table, a JSON document, a figure."""

import itertools
import math
import platform

import matplotlib
import numpy as np
import scipy
import sklearn
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

import sublinear

__all__ = ["as_json", "draw", "table"]

_COLUMNS = ("solver", "objective", "certified gap", "test error", "feature values read")
_COLUMNS += ("passes", "seconds")

# Okabe and Ito's colours, told apart by colour-blind readers; markers tell them apart in print.
_STYLES = (("#0072B2", "o", "-"), ("#009E73", "s", "-"), ("#D55E00", "^", "--"))
_STYLES += (("#CC79A7", "D", "--"), ("#E69F00", "v", ":"), ("#56B4E9", "P", ":"))
_STYLES += (("#000000", "X", ":"), ("#999999", "*", ":"))
_MOST_MARKERS = 30  # of a curve


def table(comparison):
    """Return the table as text, with the notes that say how to read it."""
    rows = [_COLUMNS] + [_row(run) for run in comparison.runs]
    others = [_row(run) for run in comparison.others]
    widths = [max(len(row[column]) for row in rows + others) for column in range(len(_COLUMNS))]
    lines = [_aligned(row, widths) for row in rows]
    lines.insert(1, "-" * len(lines[0]))
    lines += ["", "with objectives of their own, at default settings:"]
    lines += [_aligned(row, widths) for row in others]
    return "\n".join([_headline(comparison), "", *lines, "", *_notes(comparison)])


def _row(run):
    point = run.last
    return (
        run.solver,
        "-" if point.objective is None else f"{point.objective:.6f}",
        "-  " if math.isnan(point.gap) else f"{point.gap:.1e}" + ("  " if run.certified else " *"),
        f"{100 * point.test_error:.2f} %",
        f"{point.accesses:,}" + ("  " if run.accesses_counted else " +"),
        f"{point.passes:,.0f}" if point.passes >= 100 else f"{point.passes:.3g}",
        f"{point.seconds:.3f}",
    )


def _aligned(row, widths):
    first, *others = row
    cells = [first.ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
    return "  ".join(cells).rstrip()


def _headline(comparison):
    problem, limits = comparison.problem, comparison.limits
    scale = "" if problem.scale == "none" else f", {problem.scale} scaled"
    constant = ", a constant one included" if problem.intercept else ""
    weighted = "" if problem.weights is None else ", rows weighted"
    return (
        f"{problem.classes}: {problem.X.shape[0]:,} training rows, {problem.X_test.shape[0]:,} "
        f"test rows,\n{problem.X.shape[1]:,} features{constant}, {problem.n_entries:,} stored "
        f"entries{scale}{weighted}\n"
        f"objective: alpha/2 |w|^2 + mean hinge loss, no intercept, alpha = {problem.alpha:g}\n"
        f"a solver stops at a gap of {limits.tol:g} times the objective, after {limits.max_iter} "
        f"passes or {limits.max_seconds:g} s"
    )


def _notes(comparison):
    certificates = " and ".join(
        f"{run.certificate_accesses:,} by {run.solver}"
        for run in (*comparison.runs, *comparison.others)
        if run.certificate_accesses
    )
    notes = [
        f"* no dual value of its own: its objective minus {comparison.best_dual:.6f}, the best",
        "  dual value of this run, its fit of reference to a tenth of tol included. Weak duality",
        "  puts every dual value below the optimum: the distance to it is no larger than this.",
        "+ passes times stored entries; for LinearSVC an upper bound, as shrinking skips rows.",
        "Values that certificates read are counted apart:",
        f"  {certificates}.",
        "Seconds are those of one whole fit in one thread, the fastest of three if it is short.",
        "SDCA and scikit-learn's solvers are fitted again with a growing max_iter for the figure;",
        "  the row is the last fit.",
    ]
    notes += [f"{run.solver}: {run.solves}." for run in comparison.others]
    notes += [f"{solver} is left out: {why}." for solver, why in comparison.left_out.items()]
    first = comparison.runs[0].last
    if first.gap > comparison.limits.tol * first.objective:
        notes.append(
            f"{comparison.runs[0].solver} did not reach tol: try --scale columns (or rows), more "
            "passes, or a larger alpha."
        )
    return notes


def as_json(comparison):
    """Return the comparison as plain dicts, lists, strings and finite numbers."""
    problem, limits = comparison.problem, comparison.limits
    return {
        "format": "sublinear comparison",
        "version": 1,
        "objective": "alpha/2 |w|^2 + mean hinge loss",
        "alpha": problem.alpha,
        "tol": limits.tol,
        "max_iter": limits.max_iter,
        "max_seconds": limits.max_seconds,
        "seed": comparison.seed,
        "data": {
            "classes": problem.classes,
            "scale": problem.scale,
            "intercept": problem.intercept,
            "weighted": problem.weights is not None,
            "n_train": problem.X.shape[0],
            "n_test": problem.X_test.shape[0],
            "n_features": problem.X.shape[1],
            "stored_entries": problem.n_entries,
        },
        "best_dual": comparison.best_dual,
        "versions": _versions(),
        "runs": [_run_as_json(run) for run in comparison.runs],
        "others": [_run_as_json(run) for run in comparison.others],
        "left_out": comparison.left_out,
        "notes": _notes(comparison),
    }


def _run_as_json(run):
    return {
        "solver": run.solver,
        "library": run.library,
        "solves": run.solves or "the objective",
        "parameters": {name: _plain(value) for name, value in run.parameters.items()},
        **_point_as_json(run.last),
        "gap_from": "its own dual value" if run.certified else "the best dual value of the run",
        "accesses_are": "counted" if run.accesses_counted else "passes times stored entries",
        "certificate_accesses": run.certificate_accesses,
        "curve": [_point_as_json(point) for point in run.curve],
    }


def _point_as_json(point):
    return {name: _plain(value) for name, value in vars(point).items()}


def _plain(value):
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _versions():
    return {
        "python": platform.python_version(),
        "sublinear": sublinear.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "matplotlib": matplotlib.__version__,
    }


def draw(comparison):
    """Return a figure of gap and test error against seconds and feature values read."""
    figure = Figure(figsize=(11, 8.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2, sharex="col", sharey="row")
    runs = (*comparison.runs, *comparison.others)
    for run, style in zip(runs, itertools.cycle(_STYLES), strict=False):
        _draw_run(axes, run, style)
    _finish_axes(axes, comparison)
    handles, labels = axes[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(_title(comparison), fontsize=11)
    return figure


def _draw_run(axes, run, style):
    color, marker, line = style
    look = {"color": color, "marker": marker, "linestyle": line, "markersize": 4.5}
    mark = " †" if run.solves else "" if run.certified else " *"
    look |= {"linewidth": 1.5, "label": run.solver + mark}
    # A point that read nothing has no place on a logarithmic axis.
    curve = [point for point in run.curve if point.accesses > 0]
    places = range(len(curve))
    look["markevery"] = sorted({*places[:: 1 + len(curve) // _MOST_MARKERS], *places[-1:]})
    if len(curve) == 1:
        look |= {"zorder": 4, "markersize": 9}  # not hidden by curves
    for column, name in enumerate(("seconds", "accesses")):
        x = [getattr(point, name) for point in curve]
        if run.solves is None:
            axes[0, column].plot(x, [point.gap or math.nan for point in curve], **look)
        axes[1, column].plot(x, [100 * point.test_error for point in curve], **look)


def _finish_axes(axes, comparison):
    runs = (*comparison.runs, *comparison.others)
    errors = [point.test_error for run in runs for point in run.curve]
    for axis in axes.flat:
        axis.set_xscale("log")
        axis.grid(True, which="major", color="0.88", linewidth=0.8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_yscale("log")
    if min(errors) > 0:
        _readable_log_scale(axes[1, 0].yaxis)
    for axis in axes[0]:
        target = comparison.limits.tol * comparison.runs[0].last.objective
        axis.axhline(target, color="0.45", linewidth=0.9, linestyle=(0, (1, 2)))
    axes[0, 0].set_ylabel("certified gap of the objective")
    axes[1, 0].set_ylabel("test error (%)")
    axes[1, 0].set_xlabel("seconds of a whole fit")
    axes[1, 1].set_xlabel("feature values read")


def _readable_log_scale(axis):
    """Use a logarithmic scale that labels 1, 2, 3, 5 of each decade in plain numbers."""
    axis.axes.set_yscale("log")
    axis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _title(comparison):
    problem = comparison.problem
    return (
        f"{problem.classes}: {problem.X.shape[0]:,} x {problem.X.shape[1]:,}, "
        f"{problem.n_entries:,} stored entries\n"
        f"alpha/2 |w|² + mean hinge loss, alpha = {problem.alpha:g}.   dotted: tol = "
        f"{comparison.limits.tol:g}\n* gap to the run's best dual value; values read: "
        "passes × entries   † an objective of its own"
    )
