"""Options that several commands share, declared once as dataclasses."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer


def grouped(command: Callable[..., Any], own: Sequence[inspect.Parameter] = ()) -> Callable[..., Any]:
    """The command with each parameter that is a dataclass of options replaced by the options themselves.

    More options, ``own``, reach the command as a dictionary, its parameter of that name.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    wants_own = "own" in inspect.signature(command).parameters
    of_group: dict[str, str] = {}
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        if parameter.name == "own":
            parameters += own
            of_group.update({option.name: "own" for option in own})
            continue
        if group is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        kinds = get_type_hints(group, include_extras=True)
        for option in fields(group):
            default = option.default if option.default is not MISSING else inspect.Parameter.empty
            parameters.append(
                inspect.Parameter(
                    option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kinds[option.name]
                )
            )
            of_group[option.name] = parameter.name

    def flat(**given: Any) -> Any:
        packed: dict[str, dict[str, Any]] = {name: {} for name in (*groups, "own")}
        plain: dict[str, Any] = {}
        for name, value in given.items():
            (packed[of_group[name]] if name in of_group else plain)[name] = value
        if wants_own:
            plain["own"] = packed["own"]
        return command(**plain, **{name: groups[name](**packed[name]) for name in groups})

    order = sorted(parameters, key=lambda p: p.kind)
    flat.__signature__ = inspect.Signature(order)  # type: ignore[attr-defined]
    flat.__annotations__ = {p.name: p.annotation for p in order}
    flat.__doc__, flat.__name__ = command.__doc__, command.__name__
    return flat


def _option(help: str, panel: str, *names: str, **more: Any) -> Any:  # noqa: A002 (typer's word)
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=more.pop("show_default", False), **more)


_READING, _COLUMNS, _OUTPUT, _WORKERS = "Reading", "Columns and features", "Output", "Workers"


@dataclass(frozen=True)
class Reading:
    """How input is read."""

    format: Annotated[
        str | None,
        _option(
            "libsvm, vw, csv, tsv, jsonl, parquet, arrow or cache; by default the file's ending tells, else libsvm.",
            _READING,
        ),
    ] = None
    classes: Annotated[
        str | None,
        _option(
            "The two labels NEG,POS, or more: A,B,C. By default labels are numbers, positive above 0.",
            _READING,
            metavar="NEG,POS",
        ),
    ] = None
    zero_based: Annotated[
        str, _option("Whether libsvm indices begin at 0: no, yes, or auto (looks through the files first).", _READING)
    ] = "no"
    normalize: Annotated[str | None, _option("Scale each row to unit length: l2.", _READING, metavar="l2")] = None
    on_error: Annotated[
        str, _option("What to do with a bad record: raise (stop) or skip (count and report).", _READING)
    ] = "raise"
    max_errors: Annotated[int, _option("Bad records skipped at most (default 1000).", _READING, min=0)] = 1000
    threads: Annotated[int | None, _option("Threads that parse (default: one per core).", _READING, min=1)] = None
    label: Annotated[str, _option("Column (or key) of the label (default label).", _COLUMNS)] = "label"
    weight: Annotated[str | None, _option("Column of the examples' weights.", _COLUMNS)] = None
    text: Annotated[str | None, _option("Columns of text, split into words: a,b,c.", _COLUMNS)] = None
    categorical: Annotated[
        str | None, _option("Columns that are categories even where they look like numbers.", _COLUMNS)
    ] = None
    numeric: Annotated[str | None, _option("Columns that must be numbers.", _COLUMNS)] = None
    ignore: Annotated[str | None, _option("Columns left out.", _COLUMNS)] = None
    header: Annotated[
        bool,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of a CSV file names its columns (else c1, c2 …).",
            rich_help_panel=_COLUMNS,
            show_default=False,
        ),
    ] = True
    bits: Annotated[
        int | None, _option("Named features are hashed into 2^bits numbers (default 22).", _COLUMNS, min=1, max=31)
    ] = None
    signed: Annotated[
        bool, typer.Option("--signed", help="Give hashed features a random sign.", rich_help_panel=_COLUMNS)
    ] = False
    names: Annotated[
        int, _option("Remember up to this many names of hashed features (default 0: none).", _COLUMNS, min=0)
    ] = 0


@dataclass(frozen=True)
class Spread:
    """Which workers learn, and how they share the work."""

    engine: Annotated[
        str | None, _option("Learn on many workers: ray, spark, or local (processes of this machine).", _WORKERS)
    ] = None
    workers: Annotated[int, _option("How many (default 2).", _WORKERS, min=1)] = 2
    mode: Annotated[
        str, _option("What each worker has: a part of the examples (default), or of the features.", _WORKERS)
    ] = "examples"
    merge: Annotated[
        str | None,
        _option("How models become one: sum, mean, touched … (default: best for the algorithm).", _WORKERS),
    ] = None
    merge_every: Annotated[
        int | None,
        _option("Rows of each worker between merges (default: often at first, then seldom).", _WORKERS, min=1),
    ] = None
    mini_batch: Annotated[int, _option("Mode features: rows of a mini-batch (default 1).", _WORKERS, min=1)] = 1
    address: Annotated[str | None, _option("Of a Ray cluster, or the master of Spark.", _WORKERS)] = None


@dataclass(frozen=True)
class Output:
    """How much is said."""

    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Say nothing but errors and what was asked for.", rich_help_panel=_OUTPUT),
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Report in JSON, an object a line.", rich_help_panel=_OUTPUT)] = (
        False
    )
