"""Certified linear and kernel models on data that is wide, sparse or expensive to read."""

import importlib.machinery as _machinery
import importlib.util as _util
import sys as _sys
from pathlib import Path as _Path


def _step_aside_for_the_installed_package():
    """Take the submodules from the installed package when this folder has not been built.

    Python started in a clone's root finds the source folder first, but the compiled modules are in
    the installed package. The build writes ``_version``, so a source folder does not have it.
    """
    if _util.find_spec("._version", __name__) is not None:
        return
    root = _Path(__file__).resolve().parent.parent
    elsewhere = [entry for entry in _sys.path if _Path(entry).resolve() != root]
    installed = _machinery.PathFinder.find_spec(__name__, elsewhere)
    if installed is None or installed.submodule_search_locations is None:
        raise ImportError(
            f"{root} holds the source of sublinear, not yet built, and no installed copy was "
            "found; build and install it with: python -m pip install ."
        )
    __path__[:] = installed.submodule_search_locations


_step_aside_for_the_installed_package()

from sublinear._core.parallel import openmp_enabled
from sublinear._drive import Snapshot
from sublinear._kernel_machines.model import Reduction
from sublinear._model_file import load_model, save_model
from sublinear._result import Result, TraceRow
from sublinear._show_versions import show_versions
from sublinear._stream import StreamSummary
from sublinear._version import __version__
from sublinear.games import GameResult, solve_matrix_game
from sublinear.geometry import MinimumEnclosingBall, SimplexResult, solve_simplex_qp
from sublinear.kernel import KernelPegasosClassifier, KernelSDCAClassifier, KernelSDCARegressor
from sublinear.margin import L2SVMClassifier, SublinearPerceptron
from sublinear.paths import KernelPath, SDCAPath, kernel_path, sdca_path
from sublinear.pegasos import PegasosClassifier, PegasosRegressor
from sublinear.primal_dual import solve_primal_dual
from sublinear.sdca import SDCAClassifier, SDCARegressor
from sublinear.soft_margin import SIMBAClassifier, simba_path
from sublinear.streaming import StreamingSVRGClassifier, StreamingSVRGRegressor, StreamResult
from sublinear.structured import PegasosStructured, SequencePegasos, StructuredProblem
from sublinear.suggestions import SolverSuggestion, suggest_solver
from sublinear.theory import batch_speedup, spectral_norm_squared

__all__ = [
    "GameResult",
    "KernelPath",
    "KernelPegasosClassifier",
    "KernelSDCAClassifier",
    "KernelSDCARegressor",
    "L2SVMClassifier",
    "MinimumEnclosingBall",
    "PegasosClassifier",
    "PegasosRegressor",
    "PegasosStructured",
    "Reduction",
    "Result",
    "SDCAClassifier",
    "SDCAPath",
    "SDCARegressor",
    "SIMBAClassifier",
    "SequencePegasos",
    "SimplexResult",
    "Snapshot",
    "SolverSuggestion",
    "StreamResult",
    "StreamSummary",
    "StreamingSVRGClassifier",
    "StreamingSVRGRegressor",
    "StructuredProblem",
    "SublinearPerceptron",
    "TraceRow",
    "__version__",
    "batch_speedup",
    "kernel_path",
    "load_model",
    "openmp_enabled",
    "save_model",
    "sdca_path",
    "show_versions",
    "simba_path",
    "solve_matrix_game",
    "solve_primal_dual",
    "solve_simplex_qp",
    "spectral_norm_squared",
    "suggest_solver",
]
