"""Learning on many machines: Ray or Spark place the workers, restart them and move the data.

`train` fits an estimator on many workers; `DistributedClassifier` does it inside a scikit-learn pipeline.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinstream.distributed.classifier import DistributedClassifier
    from thinstream.distributed.engines.local import LocalLauncher
    from thinstream.distributed.engines.ray.launcher import RayLauncher
    from thinstream.distributed.engines.spark.launcher import SparkLauncher
    from thinstream.distributed.engines.spark.streaming import learn_stream
    from thinstream.distributed.fitting import train

_MODULES = {
    "DistributedClassifier": "classifier",
    "LocalLauncher": "engines.local",
    "RayLauncher": "engines.ray.launcher",
    "SparkLauncher": "engines.spark.launcher",
    "learn_stream": "engines.spark.streaming",
    "train": "fitting",
}

__all__ = ["DistributedClassifier", "LocalLauncher", "RayLauncher", "SparkLauncher", "learn_stream", "train"]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:  # workers import parts of this package, and must not wait for all of it
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    from thinstream.errors import no_attribute

    raise no_attribute(__name__, name, __all__)
