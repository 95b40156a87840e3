"""Options that several commands share, declared once as dataclasses."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from thinstream.streams.formats import formats
from thinstream.streams.options import Options as Reading
from thinstream.streams.options import Spelling, spelling

__all__ = ["Output", "Reading", "Spread", "grouped"]


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
        found = _reading_options() if group is Reading else _options(group)
        parameters += found
        of_group.update({option.name: parameter.name for option in found})

    def flat(**given: Any) -> Any:
        packed: dict[str, dict[str, Any]] = {name: {} for name in (*groups, "own")}
        plain: dict[str, Any] = {}
        for name, value in given.items():
            (packed[of_group[name]] if name in of_group else plain)[name] = value
        if wants_own:
            plain["own"] = packed["own"]
        return command(**plain, **{name: _filled(groups[name], packed[name]) for name in groups})

    order = sorted(parameters, key=lambda p: p.kind)
    flat.__signature__ = inspect.Signature(order)  # type: ignore[attr-defined]
    flat.__annotations__ = {p.name: p.annotation for p in order}
    flat.__doc__, flat.__name__ = command.__doc__, command.__name__
    return flat


def _options(group: Any) -> list[inspect.Parameter]:
    """The options of a dataclass whose fields are annotated as typer wants them."""
    kinds = get_type_hints(group, include_extras=True)
    return [_parameter(option.name, option.default, kinds[option.name]) for option in fields(group)]


def _reading_options() -> list[inspect.Parameter]:
    """The options that `thinstream.streams.options` declares."""
    kinds = get_type_hints(Reading)
    found = []
    for option in fields(Reading):
        declared = spelling(option)
        if declared.panel is None:
            continue
        kind = kinds[option.name] if declared.parse is None else str | None
        default = option.default if declared.parse is None else None
        found.append(_parameter(option.name, default, Annotated[kind, _typer_option(declared, declared.panel)]))
    return found


def _typer_option(declared: Spelling, panel: str) -> Any:
    names = () if declared.switch is None else (declared.switch,)
    text = declared.help.format(formats=", ".join(formats()))
    return _option(text, panel, *names, metavar=declared.metavar, min=declared.minimum, max=declared.maximum)


def _parameter(name: str, default: Any, kind: Any) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=kind)


def _filled(group: Any, values: dict[str, Any]) -> Any:
    """A dataclass of options from what stands on the command line."""
    if group is Reading:
        for option in fields(Reading):
            parse = spelling(option).parse
            if parse is not None:
                text = values.pop(option.name, None)
                values |= {} if text is None else {option.name: parse(text)}
    return group(**values)


def _option(help: str, panel: str, *names: str, **more: Any) -> Any:  # noqa: A002 (typer's word)
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=more.pop("show_default", False), **more)


_OUTPUT, _WORKERS = "Output", "Workers"


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
