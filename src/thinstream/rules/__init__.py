"""The algorithms, one per file. A new file here is a new algorithm everywhere: see CONTRIBUTING.md."""

import importlib
import importlib.util
import pkgutil


def load(name: str) -> None:
    """Imports the rule of that (lower-case) name, if there is one."""
    if name.isidentifier() and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        importlib.import_module(f"{__name__}.{name}")


def load_all() -> None:
    """Imports every rule, which declares it."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
