"""Reading text, which takes nearly all of the time of a fit over it."""

import importlib.util
import tempfile
from pathlib import Path

import numpy as np

from sublinear._readers import csv_text
from sublinear.sources import CSVSource

N_ROWS, N_COLUMNS = 20_000, 20


class CSV:
    """A pass over a file of numbers, parsed by Arrow or by NumPy."""

    params = ["arrow", "numpy"]
    param_names = ["parser"]

    def setup(self, parser):
        if parser == "arrow" and importlib.util.find_spec("pyarrow") is None:
            # with this asv skips the combination
            raise NotImplementedError("pyarrow is not installed")
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "rows.csv"
        table = np.random.default_rng(0).standard_normal((N_ROWS, N_COLUMNS + 1))
        np.savetxt(path, table, delimiter=",", fmt="%.9g")
        self.source, self.plain_table = CSVSource(path), csv_text.plain_table
        if parser == "numpy":
            csv_text.plain_table = lambda *_: None

    def teardown(self, parser):
        csv_text.plain_table = self.plain_table
        self.folder.cleanup()

    def time_pass(self, parser):
        for _ in self.source:
            pass
