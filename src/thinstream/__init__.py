"""thinstream: sparse, cost-sensitive, second-order online learning of linear classifiers.

Every algorithm is an attribute of this package (``thinstream.FSOL``, ``thinstream.SSOL`` …) and an ordinary
scikit-learn estimator; ``thinstream.algorithms()`` lists them. Importing the package costs nothing until one is used.
"""

from typing import Any

__version__ = "0.1.0"

_PLACES = {
    "LabelJoin": "thinstream.late_labels",
    "OnlineGridSearchCV": "thinstream.estimators.grid_search",
    "SparsityPath": "thinstream.estimators.sparsity_path",
    "algorithms": "thinstream.learners.registry",
    "cost_curve": "thinstream.estimators.cost_curve",
    "load": "thinstream.estimators",
    "make": "thinstream.estimators",
    "open_stream": "thinstream.streams.opening",
    "save": "thinstream.estimators",
    "trusted_types": "thinstream.estimators.trusting",
}
#: Modules that are attributes.
_MODULES = ("datasets", "distributed", "evaluate", "stability", "streams", "theory")


def __getattr__(name: str) -> Any:
    import importlib

    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"thinstream.{name}")
    if name[0].isupper():  # an algorithm; anything else must not pull in scikit-learn
        found = importlib.import_module("thinstream.estimators").named(name)
        if found is not None:
            return found
    from thinstream.errors import no_attribute

    raise no_attribute(__name__, name, () if name.startswith("_") else __dir__())


def __dir__() -> list[str]:
    from thinstream.learners.registry import algorithms

    return sorted(["Auto", *(a.name for a in algorithms()), *_PLACES, *_MODULES, "__version__"])
