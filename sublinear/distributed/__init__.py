"""Linear models over the machines of a Dask cluster: rows stay where they are.

The estimators minimise what those of the same names in `sublinear` do. They need the extra "dask"
(dask[distributed]) for dask arrays and clusters; without it they fit partitions one after the other
in this process, with the same numbers.
"""

from sublinear.distributed._pegasos import PegasosClassifier, PegasosRegressor
from sublinear.distributed._sdca import SDCAClassifier, SDCARegressor
from sublinear.distributed._streaming_svrg import StreamingSVRGClassifier, StreamingSVRGRegressor

__all__ = [
    "PegasosClassifier",
    "PegasosRegressor",
    "SDCAClassifier",
    "SDCARegressor",
    "StreamingSVRGClassifier",
    "StreamingSVRGRegressor",
]
