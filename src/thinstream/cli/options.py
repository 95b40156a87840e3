"""Options that several commands share, declared once as dataclasses, and what their texts mean."""

import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from thinstream.cli.completing import learner_names
from thinstream.cli.declared import Given, argument, declared_in, option
from thinstream.cli.terminal import guarded_output
from thinstream.errors import InvalidParameterError
from thinstream.streams.formats import formats
from thinstream.streams.options import Options, spelling

if TYPE_CHECKING:
    from thinstream.engine.loop import Costs
    from thinstream.evaluate.report import Tradeoff
    from thinstream.learners import Classes

#: Whether a constant feature is learned along where the command line does not say.
INTERCEPT = True
#: What `train` learns, and what is swept or learned by many workers, unless another is named: nothing to tune on the
#: one hand, on the other good untuned on most streams, and sparse with l1.
DEFAULT_LEARNER, DEFAULT_ALGORITHM = "auto", "adarda"
#: What `tune` tries unless others are named, each with the grid that `tune.candidates.USUAL` has for it.
DEFAULT_SEARCH = ("arow", "scw", "adarda")


def default_learner(engine: str | None) -> str:
    """What `train` learns unless an algorithm is named, on this machine or on workers of an engine."""
    return DEFAULT_LEARNER if engine is None else DEFAULT_ALGORITHM


#: How input is read.
Reading = Options
#: Panels of the help.
MODEL, JUDGING, OUTPUT = "Model", "Judging", "Output"
_WORKERS, _LANES = "Workers", "Lanes"

Data = Annotated[list[str], argument("Files, globs, or - for standard input.")]
Device = Annotated[
    str, option("cpu, cuda (a GPU, see docs/gpu.md), or auto (default): a GPU where there is one and it pays.", _LANES)
]
Lines = Annotated[
    list[str],
    argument("Files or - for standard input; .gz, .bz2, .xz, .zst as they are."),
]
Header = Annotated[
    bool | None,
    option(
        "Whether the first line of each file is a header, which stays first (default: of .csv and .tsv).",
        None,
        "--header/--no-header",
    ),
]


ModelFile = Annotated[Path, option("The model file.", None, "--model", "-m")]
Algorithm = Annotated[
    str,
    option(
        "Its name, see `thinstream algorithms`.",
        MODEL,
        "--algorithm",
        "-a",
        show_default=True,
        values=learner_names,
    ),
]
Algorithms = Annotated[
    list[str] | None,
    option(
        "Names, see `thinstream algorithms`; several with commas, or repeated (default: arow,scw,adarda).",
        MODEL,
        "--algorithm",
        "-a",
        values=learner_names,
    ),
]
ClassWeight = Annotated[
    str | None,
    option("Costs of the classes: balanced, or one for each in the order of --classes, as in 1,20.", MODEL),
]
Intercept = Annotated[
    bool | None,
    option(
        "Learn a constant feature along, or not (default: yes; batch methods: no).",
        MODEL,
        "--intercept/--no-intercept",
    ),
]

Scale = Annotated[
    str | None,
    option(
        "Divide each feature by a scale learned along: max (its largest |value| so far), rms (root mean square) or idf "
        "(the rarer it is, the more it counts).",
        MODEL,
        metavar="max|rms|idf",
        values=lambda: ("max", "rms", "idf"),
    ),
]
Normalize = Annotated[
    str | None, option("Divide each row by its length, after scaling: l2.", MODEL, metavar="l2", values=lambda: ("l2",))
]
Tfidf = Annotated[bool, option("Online tf-idf, for texts: --scale idf --normalize l2.", MODEL, "--tfidf")]


def take_tfidf(options: Any) -> None:
    """What ``--tfidf`` stands for, in options that are made."""
    if options.tfidf:
        for name, meant in (("scale", "idf"), ("normalize", "l2")):
            if getattr(options, name) not in (None, meant):
                raise InvalidParameterError(
                    f"--tfidf means --{name} {meant}, it cannot be used with --{name} {getattr(options, name)}"
                )
            object.__setattr__(options, name, meant)


class Expanded:
    """A command with each parameter that is a dataclass of options replaced by the options themselves.

    Options of the algorithms, ``own``, reach the command as values in a dictionary, its parameter ``parameters``.
    """

    def __init__(
        self, command: Callable[..., Any], own: Sequence[inspect.Parameter] = (), algorithms: Sequence[str] = ()
    ) -> None:
        self.algorithms = algorithms  # whose options they are
        self.command, self._hints = command, get_type_hints(command, include_extras=True)
        taken = {name for each in own for name in declared_in(each.annotation)[1].names}
        self._groups: dict[str, Any] = {name: hint for name, hint in self._hints.items() if is_dataclass(hint)}
        self._of_group: dict[str, str] = {}
        found: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            hint, members = self._hints.get(parameter.name), []
            if parameter.name == PARAMETERS:
                members = list(own)
            elif parameter.name in self._groups:
                members = [_without_names(each, taken) for each in _options_of(hint)]
            elif hint is not Given:
                found.append(parameter.replace(annotation=hint))
            found += members
            self._of_group |= {each.name: parameter.name for each in members}
        self.parameters = sorted(found, key=lambda parameter: parameter.kind)

    def __call__(self, values: dict[str, Any], given: Given) -> Any:
        """Runs the command with these values, of which the ``given`` were named; others have their defaults."""
        packed: dict[str, dict[str, Any]] = {name: {} for name in (*self._groups, PARAMETERS)}
        plain: dict[str, Any] = {name: given for name, hint in self._hints.items() if hint is Given}
        for parameter in self.parameters:
            name = parameter.name
            (packed[self._of_group[name]] if name in self._of_group else plain)[name] = values.get(
                name, parameter.default
            )
        if PARAMETERS in self._hints:
            from thinstream.cli.algorithm_options import parse_parameters

            plain[PARAMETERS] = parse_parameters(self.algorithms, packed[PARAMETERS])
        plain |= {name: _fill(self._groups[name], packed[name]) for name in self._groups}
        with guarded_output(), _say_if_compiling(plain.get("output")):
            return self.command(**plain)


def _say_if_compiling(output: Any) -> AbstractContextManager[None]:
    """Of commands that may compile: those that read rows, and say how much they say."""
    if output is None:
        return nullcontext()
    from thinstream.cli.progress import say_if_compiling

    return say_if_compiling(output.quiet)


#: The parameter of a command that takes the options of the algorithm.
PARAMETERS = "parameters"


def _options_of(group: Any) -> list[inspect.Parameter]:
    """An option per field of a dataclass; those of reading are declared where streams are."""
    if group is Reading:
        return _reading_options()
    kinds = get_type_hints(group, include_extras=True)
    return [_parameter(each.name, each.default, kinds[each.name]) for each in fields(group)]


def _reading_options() -> list[inspect.Parameter]:
    kinds = get_type_hints(Reading)
    found = []
    for each in fields(Reading):
        declared = spelling(each)
        if declared.panel is None:  # commands set it themselves
            continue
        names = declared.flags if declared.switch is None else (declared.switch,)
        limits: dict[str, Any] = {"metavar": declared.metavar, "min": declared.minimum, "max": declared.maximum}
        texts = tuple(choice for choice in declared.choices if isinstance(choice, str))
        limits["values"] = formats if each.name == "format" else partial(tuple, texts)
        text_kind = list[str] | None if declared.repeated else str | None
        kind = kinds[each.name] if declared.parse is None else text_kind
        default = each.default if declared.parse is None else None
        text = declared.help.format(formats=", ".join(formats()))
        found.append(_parameter(each.name, default, Annotated[kind, option(text, declared.panel, *names, **limits)]))
    return found


def _without_names(parameter: inspect.Parameter, taken: set[str]) -> inspect.Parameter:
    """An option that has several names, without those that the algorithm has for its own."""
    kind, declared = declared_in(parameter.annotation)
    left = tuple(name for name in declared.names if name not in taken)
    return parameter.replace(annotation=Annotated[kind, declared._replace(names=left)])


def _parameter(name: str, default: Any, kind: Any) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=kind)


def _fill(group: Any, values: dict[str, Any]) -> Any:
    """A dataclass of options from what stands on the command line."""
    if group is Reading:
        for each in fields(Reading):
            parse = spelling(each).parse
            if parse is not None:
                text = values.pop(each.name, None)
                if text is not None and text != []:
                    values[each.name] = tuple(map(parse, text)) if spelling(each).repeated else parse(text)
    return group(**values)


@dataclass(frozen=True)
class Distributed:
    """Which workers learn, and how they share the work."""

    engine: Annotated[
        str | None,
        option(
            "Learn on many workers: ray, spark, or local (processes of this machine).",
            _WORKERS,
            values=lambda: ("local", "ray", "spark"),
        ),
    ] = None
    workers: Annotated[int, option("How many (default 2).", _WORKERS, min=1)] = 2
    mode: Annotated[
        str,
        option("What each worker has: a part of the examples (default) or of the features (experimental).", _WORKERS),
    ] = "examples"
    merge: Annotated[
        str | None,
        option("How models become one: sum, mean, touched … (default: best for the algorithm).", _WORKERS),
    ] = None
    merge_every: Annotated[
        int | None,
        option("Rows of each worker between merges (default: often at first, then seldom).", _WORKERS, min=1),
    ] = None
    mini_batch: Annotated[int | None, option("Mode features: rows of a mini-batch (default 64).", _WORKERS, min=1)] = (
        None
    )
    address: Annotated[str | None, option("Of a Ray cluster, or the master of Spark.", _WORKERS)] = None


@dataclass(frozen=True)
class Output:
    """How much is said."""

    quiet: Annotated[bool, option("Say nothing but errors and what was asked for.", OUTPUT, "--quiet", "-q")] = False
    json: Annotated[bool, option("Report in JSON, an object a line.", OUTPUT, "--json")] = False


Metrics = Annotated[
    str | None,
    option(
        "What the table shows: baseline, precision, recall, f1, specificity, balanced, sum, cost, log-loss, hinge, "
        "auc, ap, several with commas. sum and cost (paper P3) are shown only if named here.",
        OUTPUT,
        "--metrics",
    ),
]


def parse_metrics(text: str | None, classes: "Classes") -> list[str]:
    """The names of ``--metrics``, if there are such of these classes.

    >>> from thinstream.learners import Classes
    >>> parse_metrics("error, AUC", Classes(0, 1))
    Traceback (most recent call last):
    thinstream.errors.InvalidParameterError: --metrics must be of 'baseline', 'precision', 'recall', 'f1',
    'specificity', 'balanced', 'sum', 'cost', 'log-loss', 'hinge', 'auc' or 'ap', got 'error'
    """
    from thinstream.evaluate.showing import require_metrics

    names = [name.strip().lower() for name in (text or "").split(",") if name.strip()]
    require_metrics(names, classes.are_two)
    return names


@dataclass(frozen=True)
class Judging:
    """How errors of the two kinds are weighed against each other."""

    alpha_p: Annotated[
        float,
        option(
            "Weight of sensitivity in the weighted sum; specificity has the rest (default 0.5).",
            JUDGING,
            min=0.0,
            max=1.0,
        ),
    ] = 0.5
    cost_p: Annotated[
        float,
        option(
            "Cost of a missed positive; a false alarm costs the rest to 1 (default 0.95).", JUDGING, min=0.0, max=1.0
        ),
    ] = 0.95

    def tradeoff(self) -> "Tradeoff":
        """The weights of both kinds."""
        from thinstream.evaluate.report import Tradeoff

        return Tradeoff(self.alpha_p, 1.0 - self.alpha_p, self.cost_p, 1.0 - self.cost_p)


@dataclass(frozen=True)
class Study:
    """What many models learning side by side share, what they may take, and where the findings go."""

    intercept: Intercept = None
    scale: Scale = None
    normalize: Normalize = None
    tfidf: Tfidf = False
    dtype: Annotated[str, option("float32 (default) or float64.", MODEL)] = "float32"
    memory: Annotated[
        str | None,
        option(
            "What all models may take, as in 500M or 4G (default: half of the machine's); beyond it they go in "
            "several passes.",
            _LANES,
        ),
    ] = None
    device: Device = "auto"
    plot: Annotated[Path | None, option("Draw into this file (.png, .svg or .html).", OUTPUT)] = None
    csv: Annotated[Path | None, option("Write the table, with all its columns, to this file.", OUTPUT)] = None

    def __post_init__(self) -> None:
        take_tfidf(self)

    @property
    def fit_intercept(self) -> bool:
        """Whether a constant feature is learned along."""
        return INTERCEPT if self.intercept is None else self.intercept


def parse_bytes(text: str | None) -> int | None:
    """A number of bytes.

    >>> parse_bytes("1.5G"), parse_bytes("300k"), parse_bytes(None)
    (1500000000, 300000, None)
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", text)
    if found is None or float(found[1]) == 0:
        raise InvalidParameterError(f"--memory must be a number of bytes as in 500M or 4G, got {text!r}")
    return int(float(found[1]) * 1000 ** " kMGT".index(found[2] or " "))


def classes_of(reading: Reading) -> "Classes":
    """The labels of ``--classes``; without it −1 and 1, or none yet with ``--grow-classes``."""
    from thinstream.learners import Classes
    from thinstream.learners.growing_classes import GrowingClasses

    if reading.grow_classes:
        return GrowingClasses(*(reading.classes or ()))
    return Classes(*(reading.classes or (-1, 1)))


def parse_class_weight(text: str | None, classes: Sequence[Any]) -> Any:
    """``balanced``, or a cost for each class, in their order."""
    if text is None or text == "balanced":
        return text
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != len(classes) or not all(0.0 < weight < float("inf") for weight in weights):
        how = "two numbers > 0 as in 1,20" if len(classes) == 2 else f"{len(classes)} numbers > 0, one for each class"
        raise InvalidParameterError(f"--class-weight must be balanced or {how}, got {text!r}")
    return dict(zip(classes, weights, strict=True))


def parse_costs(text: str | None, classes: "Classes") -> "tuple[Costs, ...]":
    """The costs of two classes, or of each class against the rest."""
    from thinstream.learners import class_costs

    return class_costs(parse_class_weight(text, classes), classes, "--class-weight")
