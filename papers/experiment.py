"""An experiment: cells that produce rows, and a page that depends on the rows only."""

import math
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

#: A result of a cell: plain numbers and texts by column, so that they can be saved as JSON and CSV.
Row = dict[str, Any]


class Cell(NamedTuple):
    """A unit of work that is done completely or not at all.

    ``work(*arguments)`` must be a function of a module with plain arguments (it may run in another process), seeded by
    them, and return rows. ``key`` is unique in its experiment.
    """

    key: str
    work: Callable[..., list[Row]]
    arguments: tuple[Any, ...] = ()
    needs: tuple[str, ...] = ()  # data sets


def cells_for(work: Callable[..., list[Row]], sets: Iterable[str], kinds: Iterable[str], *more: Any) -> list[Cell]:
    """Return a cell for each dataset and group of methods: ``work(dataset, group, *more)``."""
    kinds = tuple(kinds)
    return [Cell(f"{name} {kind}", work, (name, kind, *more), (name,)) for name in sets for kind in kinds]


class Claim(NamedTuple):
    """A statement of a paper, whether our rows confirm it, and the numbers that show it."""

    text: str
    holds: bool
    evidence: str


class Compared(NamedTuple):
    """One of our numbers compared with the paper's, in the paper's unit."""

    what: str
    ours: float
    spread: float  # standard deviation of ours; NaN: of a single run
    paper: float
    why: str = ""  # one sentence on the reason of a difference, which was tested
    reading: float = math.nan  # ours in the reading that the authors seem to have used


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper.

    Everything on its page follows from the rows, which `tables`, `draw`, `claims` and `compare` receive. So pages can
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
    not_testable: Sequence[str] = ()  # claims of the paper whose data are not available
    reduced: Sequence[str] = ()  # parts of the paper's protocol that are smaller here, and the effect
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # the paper's set → what is used in its place, and why
    cells_of: str = ""  # the experiment whose cells these are, so that both need them run only once
    rows: Callable[[Sequence[Row]], list[Row]] = list  # those of the cells' rows that it is made of
    timed: bool = False  # cells measure time, so they run one after the other
    version: int = 1  # increase it when saved cells become invalid

    @classmethod
    def of(cls, module: str, name: str, **more: Any) -> "Experiment":
        """With its text in ``pages.toml``, and the functions of a module that have the names of fields."""
        found: dict[str, Any] = vars(sys.modules[module])
        given = dict(_pages()[name])
        given["about"] = given["about"].format(**found)
        given["reduced"] = [text.format(**found) for text in given.get("reduced", ())]
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
