"""What an experiment is: cells that make rows, and a page that is made of rows alone."""

import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

#: What a cell finds: plain numbers and texts by column, so that they can be kept as JSON and CSV.
Row = dict[str, Any]


class Cell(NamedTuple):
    """A piece of work that is done at once or not at all.

    ``work(*arguments)`` must be a function of a module with plain arguments (it may run in another process), seeded by
    them, and return rows. ``key`` tells it from the other cells of its experiment.
    """

    key: str
    work: Callable[..., list[Row]]
    arguments: tuple[Any, ...] = ()
    needs: tuple[str, ...] = ()  # data sets


def cells_for(work: Callable[..., list[Row]], sets: Iterable[str], kinds: Iterable[str], *more: Any) -> list[Cell]:
    """A cell for each data set and kind of what is compared: ``work(set, kind, *more)``."""
    kinds = tuple(kinds)
    return [Cell(f"{name} {kind}", work, (name, kind, *more), (name,)) for name in sets for kind in kinds]


class Claim(NamedTuple):
    """What a paper says in words, whether our rows bear it out, and the numbers that say so."""

    text: str
    holds: bool
    evidence: str


class Compared(NamedTuple):
    """A number of ours beside the paper's, in the paper's unit."""

    what: str
    ours: float
    spread: float  # standard deviation of ours; NaN: of a single run
    paper: float
    why: str = ""  # one sentence, where they differ


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper.

    Everything on its page follows from the rows: `tables`, `draw`, `claims` and `compare` take them, so that pages can
    be written again without running anything.
    """

    name: str  # on the command line, as p3-table2
    source: str  # "P3, Table II"
    title: str
    about: str  # what is done and where it departs from the paper, paragraphs in Markdown
    cells: Callable[[bool], Sequence[Cell]]  # of the smoke version (tiny sizes, for tests) or the real one
    tables: Callable[[Sequence[Row]], Iterable[str]]  # in Markdown, with paragraphs between them
    draw: Callable[[Sequence[Row], Any], None]  # on an empty matplotlib figure (size it with set_size_inches)
    claims: Callable[[Sequence[Row]], Iterable[Claim]] = lambda rows: ()
    compare: Callable[[Sequence[Row]], Iterable[Compared]] = lambda rows: ()
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # the paper's set → what is used in its place, and why
    cells_of: str = ""  # the experiment whose cells these are, so that both need them run only once
    rows: Callable[[Sequence[Row]], list[Row]] = list  # those of the cells' rows that it is made of
    timed: bool = False  # cells measure time: one after the other, nothing beside
    version: int = 1  # raise it when kept cells no longer mean the same

    @classmethod
    def of(cls, module: str, name: str, **more: Any) -> "Experiment":
        """With its text in ``pages.toml``, and the functions of a module that have the names of fields."""
        found: dict[str, Any] = vars(sys.modules[module])
        given = dict(_pages()[name])
        given["about"] = given["about"].format(**found)
        given |= {key: found[key] for key in ("cells", "tables", "draw", "claims", "compare") if key in found}
        return cls(name=name, **{**given, **more})


@cache
def _pages() -> dict[str, dict[str, Any]]:
    text = (files("papers") / "pages.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; all columns but the first to the right.

    >>> print(markdown(["set", "error"], [["a9a", "15.1"]]))
    | set | error |
    |---|--:|
    | a9a | 15.1 |
    """
    rule = "|---|" + "--:|" * (len(header) - 1)
    return "\n".join([_line(header), rule, *map(_line, lines)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
