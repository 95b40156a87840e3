"""The algorithms, one per file. A new file here is a new algorithm everywhere: see CONTRIBUTING.md."""

import importlib
import pkgutil


def load_all() -> None:
    """Imports every rule, which declares it."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
