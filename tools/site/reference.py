"""The API reference: a page for each public name, found by looking, so that none is missing."""

import importlib
import inspect
import pkgutil
from typing import Any

import thinstream as ts
from thinstream.estimators import ModelClassifier, OnlineClassifier

#: Internal modules: they are not in the reference, docs/architecture.md describes them.
INTERNAL = {
    "algorithms", "batch", "cli", "engine", "files", "jit", "lanes", "models", "plotting", "training", "tuning",
}  # fmt: skip
#: Public names of modules inside other folders.
OFFERED: dict[str, tuple[str, ...]] = {
    "thinstream.models.file": ("read", "write"),
    "thinstream.models.model": ("Model", "Names"),
    "thinstream.serve.client": ("AsyncClient", "Client", "ServerError"),
    "thinstream.training.delayed_labels": ("Labelled", "RowStore", "Status", "Waiting"),
    "thinstream.training.job": ("Job", "ModelSpec", "learn_stream"),
    "thinstream.training.metrics": ("Progress", "Report", "Tradeoff"),
    "thinstream.training.monitors": ("ADWIN", "DDM", "PageHinkley"),
    "thinstream.training.run": ("Run", "score_stream"),
}
#: What stands above the names of a module, where its first line is not enough.
GROUPS = (
    ("Auto and the algorithms", lambda name, found: _is_algorithm(found)),
    ("Tuning and choosing", lambda name, found: name in ("OnlineGridSearchCV", "SparsityPath", "cost_curve")),
    ("Streams, files and names", lambda name, found: True),
)


def modules() -> list[str]:
    """Public modules, the package first."""
    inside = sorted(module.name for module in pkgutil.iter_modules(ts.__path__))
    public = [f"thinstream.{name}" for name in inside if name not in INTERNAL and name[0] != "_"]
    return ["thinstream", *sorted([module for module in public if names(module)] + list(OFFERED))]


def names(module: str) -> list[str]:
    """Public names of a module; of other modules than the package those that it does not have itself."""
    found = importlib.import_module(module)
    if module == "thinstream":
        return [name for name in dir(ts) if name[0] != "_" and not inspect.ismodule(getattr(ts, name))]
    declared = OFFERED.get(module) or getattr(found, "__all__", None)
    if declared is None:
        declared = [
            name
            for name, value in vars(found).items()
            if name[0] != "_" and getattr(value, "__module__", None) == module
        ]
    return sorted(name for name in declared if getattr(ts, name, None) is not getattr(found, name))


def pages() -> dict[str, str]:
    """Every page of the reference, by its place in docs/."""
    found, overview = {}, ["Python\n======\n", "Every public name, by the module it is imported from.\n"]
    for module in modules():
        summary = (inspect.getdoc(importlib.import_module(module)) or "").partition("\n\n")[0]
        overview += [f"\n{module}\n{'-' * len(module)}\n\n.. module:: {module}\n\n{_plain(summary)}\n"]
        for title, members in _groups(module):
            overview.append(f"\n.. rubric:: {title}\n" if title else "")
            overview.append(
                _table([(f":doc:`{name} <{module}.{name}>`", _first_line(module, name)) for name in members])
            )
            for name in members:
                found[f"api/{module}.{name}.rst"] = _page(module, name)
    places = [place.removeprefix("api/").removesuffix(".rst") for place in found]
    listed = "\n".join(f"   {place.removeprefix('thinstream.')} <{place}>" for place in places)
    overview.append(f"\n.. toctree::\n   :hidden:\n\n{listed}\n")
    return {"api/index.rst": "\n".join(overview), **found}


def _groups(module: str) -> list[tuple[str, list[str]]]:
    if module != "thinstream":
        return [("", names(module))]
    left, found = names(module), []
    for title, belongs in GROUPS:
        members = [name for name in left if belongs(name, getattr(ts, name))]
        left = [name for name in left if name not in members]
        found.append((title, members))
    return found


def _is_algorithm(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, ModelClassifier)


def _page(module: str, name: str) -> str:
    found, full = getattr(importlib.import_module(module), name), f"{module}.{name}"
    lines = [f"{full}\n{'=' * len(full)}\n"]
    if module == "thinstream" and _is_algorithm(found):
        own, table = _methods(found)
        lines += [f".. autoclass:: {full}\n", *(f".. automethod:: {full}.{name}\n" for name in own), table]
    elif inspect.isclass(found):
        stop = "BaseEstimator, ClassifierMixin, tuple, Exception"
        lines.append(f".. autoclass:: {full}\n   :members:\n   :inherited-members: {stop}\n")
    elif callable(found):
        lines.append(f".. autofunction:: {full}\n")
    else:
        lines.append(f".. autodata:: {full}\n   :no-value:\n")
    lines.append(f".. minigallery:: {full}\n   :add-heading: Examples that use it\n   :heading-level: ^\n")
    return "\n".join(lines)


def _methods(estimator: type) -> tuple[list[str], str]:
    """Methods to tell in full, and a table of all: those most estimators share are told once, at OnlineClassifier."""
    own, rows = [], []
    for name in sorted(name for name in dir(estimator) if name[0] != "_"):
        value = inspect.getattr_static(estimator, name)
        owner = next(kind for kind in estimator.__mro__ if name in vars(kind))
        if not owner.__module__.startswith("thinstream.") or not (inspect.isfunction(value) or hasattr(value, "fn")):
            continue
        shared = inspect.getattr_static(OnlineClassifier, name, None) is value
        own += [] if shared else [name]
        place = (
            f"thinstream.estimators.OnlineClassifier.{name}" if shared else f"thinstream.{estimator.__name__}.{name}"
        )
        about = (inspect.getdoc(getattr(value, "fn", value)) or "").partition("\n")[0]
        rows.append((f":py:meth:`~{place}`", _plain(about)))
    return own, ".. rubric:: Methods\n\n" + _table(rows)


def _first_line(module: str, name: str) -> str:
    found = getattr(importlib.import_module(module), name)
    text = inspect.getdoc(found) or "" if callable(found) else ""
    return _plain(" ".join(text.partition("\n\n")[0].split()))


def _plain(text: str) -> str:
    from tools.site.docstrings import escaped

    return " ".join(escaped(text.splitlines()))


def _table(rows: list[tuple[str, str]]) -> str:
    lines = [".. list-table::", "   :class: names", "   :widths: 30 70", ""]
    for left, right in rows:
        lines += [f"   * - {left}", f"     - {right}"]
    return "\n".join(lines) + "\n"
