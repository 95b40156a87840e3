"""thinstream: sparse, cost-sensitive, second-order online learning of linear classifiers.

Every algorithm is an attribute of this package (``thinstream.FSOL``, ``thinstream.SSOL`` …) and an ordinary
scikit-learn estimator; ``thinstream.algorithms()`` lists them. Importing the package costs nothing until one is used.
"""

from typing import TYPE_CHECKING, Any

from thinstream._version import __version__ as __version__

if TYPE_CHECKING:  # what `__getattr__` imports when it is first used
    from thinstream import data as data
    from thinstream import datasets as datasets
    from thinstream import diagnostics as diagnostics
    from thinstream import distributed as distributed
    from thinstream.algorithms.registry import algorithms as algorithms
    from thinstream.data.opening import open_stream as open_stream
    from thinstream.estimators import load as load
    from thinstream.estimators import make as make
    from thinstream.estimators import save as save
    from thinstream.estimators.algorithms import *  # noqa: F403
    from thinstream.estimators.distributed import DistributedClassifier as DistributedClassifier
    from thinstream.estimators.factory import trusted_types as trusted_types
    from thinstream.estimators.grid_search import OnlineGridSearchCV as OnlineGridSearchCV
    from thinstream.estimators.label_join import LabelJoin as LabelJoin
    from thinstream.estimators.sweeps import SparsityPath as SparsityPath
    from thinstream.estimators.sweeps import cost_curve as cost_curve

_PLACES = {
    "DistributedClassifier": "thinstream.estimators.distributed",
    "LabelJoin": "thinstream.estimators.label_join",
    "OnlineGridSearchCV": "thinstream.estimators.grid_search",
    "SparsityPath": "thinstream.estimators.sweeps",
    "algorithms": "thinstream.algorithms.registry",
    "cost_curve": "thinstream.estimators.sweeps",
    "load": "thinstream.estimators",
    "make": "thinstream.estimators",
    "open_stream": "thinstream.data.opening",
    "save": "thinstream.estimators",
    "trusted_types": "thinstream.estimators.factory",
}
#: Modules that are attributes.
_MODULES = ("data", "datasets", "diagnostics", "distributed")


if not TYPE_CHECKING:  # type checkers know the names above, and report others

    def __getattr__(name: str) -> Any:
        import importlib

        if name in _PLACES:
            return getattr(importlib.import_module(_PLACES[name]), name)
        if name in _MODULES:
            return importlib.import_module(f"thinstream.{name}")
        if name[0].isupper():  # an algorithm; anything else must not pull in scikit-learn
            estimator = importlib.import_module("thinstream.estimators").named(name)
            if estimator is not None:
                return estimator
        from thinstream.errors import no_attribute

        raise no_attribute(__name__, name, () if name.startswith("_") else __dir__())


def __dir__() -> list[str]:
    from thinstream.algorithms.registry import algorithms

    return sorted(["Auto", *(a.name for a in algorithms()), *_PLACES, *_MODULES, "__version__"])
