"""Learning on many machines: Ray or Spark start the workers, restart them and move the data.

`train` fits an estimator on many workers; `thinstream.DistributedClassifier` does it inside a scikit-learn pipeline.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinstream.distributed.engines.local import LocalLauncher
    from thinstream.distributed.engines.ray import RayLauncher
    from thinstream.distributed.engines.spark import SparkLauncher
    from thinstream.distributed.engines.spark_frames import learn_stream
    from thinstream.distributed.job import train

_MODULES = {
    "LocalLauncher": "engines.local",
    "RayLauncher": "engines.ray",
    "SparkLauncher": "engines.spark",
    "learn_stream": "engines.spark_frames",
    "train": "job",
}

__all__ = ["LocalLauncher", "RayLauncher", "SparkLauncher", "learn_stream", "train"]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:  # on first use, because workers need only parts of this package
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    from thinstream.errors import no_attribute

    raise no_attribute(__name__, name, __all__)
