"""Report what this installation is made of."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from joblib import effective_n_jobs

from sublinear._core.parallel import bounds_checked, max_threads, openmp_enabled
from sublinear._version import __version__

PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl"),
    *("tqdm", "matplotlib", "pyarrow", "dask", "distributed"),
)


def show_versions():
    """Print the versions of sublinear, Python and what they use, OpenMP, threads, bounds checks.

    Examples
    --------
    >>> from sublinear import show_versions
    >>> show_versions()  # doctest: +SKIP
    """
    rows = {"sublinear": __version__, "python": sys.version.split()[0]}
    rows["platform"] = platform.platform()
    for package in PACKAGES:
        try:
            rows[package] = version(package)
        except PackageNotFoundError:
            rows[package] = "not installed"
    rows["OpenMP"] = "yes" if openmp_enabled() else "no"
    rows["OpenMP threads"] = max_threads()
    rows["usable processors"] = effective_n_jobs(-1)
    rows["bounds checks"] = "yes" if bounds_checked() else "no"
    width = max(map(len, rows))
    print("\n".join(f"{name:>{width}}: {value}" for name, value in rows.items()))
