"""Learning on many machines: Ray or Spark place the workers, restart them and move the data.

`train` fits an estimator on many workers; `DistributedClassifier` does it inside a scikit-learn pipeline.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinstream.distributed.classifier import DistributedClassifier
    from thinstream.distributed.fitting import train
    from thinstream.distributed.local import LocalLauncher
    from thinstream.distributed.on_ray import RayLauncher
    from thinstream.distributed.on_spark import SparkLauncher

_PLACES = {
    "DistributedClassifier": "classifier",
    "LocalLauncher": "local",
    "RayLauncher": "on_ray",
    "SparkLauncher": "on_spark",
    "train": "fitting",
}

__all__ = ["DistributedClassifier", "LocalLauncher", "RayLauncher", "SparkLauncher", "train"]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _PLACES:  # workers import parts of this package, and must not wait for all of it
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
