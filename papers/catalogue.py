"""All experiments, in the order of the papers."""

from functools import cache
from importlib import import_module

from papers.experiment import Experiment
from thinstream.errors import UnknownNameError

#: Modules that hold one each, as EXPERIMENT, or several, as EXPERIMENTS.
MODULES: tuple[str, ...] = (
    "p0_fig1",
    "p0_fig2",
    "p0_fig3",
    "p0_imbalance",
    "p0_variants",
    "p1_table2",
    "p1_fig1",
    "p2_fig1",
    "p2_table3",
    "p2_fig5",
    "p2_stopping",
    "p3_table2",
    "p3_fig1",
    "p3_fig3",
    "p3_table4",
)


@cache
def experiments() -> dict[str, Experiment]:
    """Name → experiment."""
    modules = [import_module(f"papers.{module}") for module in MODULES]
    found = [one for module in modules for one in getattr(module, "EXPERIMENTS", None) or (module.EXPERIMENT,)]
    return {experiment.name: experiment for experiment in found}


def chosen(names: list[str]) -> list[Experiment]:
    """The experiments named; "all" or a paper such as p3 selects several."""
    known, found = experiments(), {}
    for name in names:
        matches = [one for one in known.values() if name.lower() in ("all", one.name, one.name.split("-")[0])]
        if not matches:
            raise UnknownNameError(
                f"there is no experiment {name!r}; there are all, p0 … p3 (those of one paper), {', '.join(known)}"
            )
        found.update({one.name: one for one in matches})
    return list(found.values())
