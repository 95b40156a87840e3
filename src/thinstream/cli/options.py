"""Declarations of options and arguments, the options that several commands share, and the parsing of their values."""

import argparse
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from thinstream.data.formats import formats
from thinstream.data.options import Options, spelling
from thinstream.errors import InvalidParameterError

if TYPE_CHECKING:
    from thinstream.data.labels import Classes
    from thinstream.engine.loop import Costs
    from thinstream.training.metrics import Tradeoff


# Declarations of options and arguments in the signatures of commands.


class Declared(NamedTuple):
    """An option or an argument, declared in the annotation of a parameter."""

    help: str = ""
    panel: str | None = None  # the title above the option in the help
    names: tuple[str, ...] = ()  # such as ("--model", "-m") or ("--lower/--no-lower",); (): the parameter's name
    metavar: str | None = None  # the word for the value in the help; None: a word for the type
    min: float | None = None
    max: float | None = None
    is_argument: bool = False
    values: tuple[str, ...] | Callable[[], Iterable[Any]] | None = None  # the allowed values, for shell completion


class Specified(frozenset[str]):
    """The names of the parameters that the command line specifies."""


def option(help: str, panel: str | None = None, *names: str, **more: Any) -> Declared:  # noqa: A002 (argparse's word)
    """Declare an option; ``more`` are fields of `Declared`."""
    return Declared(help, panel, names, **more)


def argument(help: str, **more: Any) -> Declared:  # noqa: A002 (argparse's word)
    """Declare an argument; ``more`` are fields of `Declared`."""
    return Declared(help, is_argument=True, **more)


def declared_in(annotation: Any) -> tuple[Any, Declared]:
    """Return the type of a parameter and its declaration.

    >>> declared_in(Annotated[int, option("The number of models.", min=1)])  # doctest: +ELLIPSIS
    (<class 'int'>, Declared(help='The number of models.', panel=None, names=(), ..., min=1, max=None, ...))
    >>> declared_in(int)[1].help
    ''
    """
    if get_origin(annotation) is not Annotated:
        return annotation, Declared()
    value_type, declared = get_args(annotation)[:2]
    return value_type, declared


#: The default of ``--intercept`` for online algorithms.
INTERCEPT = True
#: Default algorithms of `train`, and of `path` and distributed runs. Auto has nothing to tune. AdaRDA works untuned on
#: most streams and is sparse with l1.
DEFAULT_LEARNER, DEFAULT_ALGORITHM = "auto", "adarda"
#: Default algorithms of `tune`, each with its grid in `tuning.search.USUAL`.
DEFAULT_SEARCH = ("arow", "scw", "adarda")


def default_learner(engine: str | None, mode: str | None) -> str:
    """Return the default algorithm of `train`, in one process or in several."""
    return DEFAULT_LEARNER if engine is None and mode != "features" else DEFAULT_ALGORITHM


def learner_names() -> list[str]:
    from thinstream.algorithms.registry import algorithms

    return [DEFAULT_LEARNER, *(algorithm.name.lower() for algorithm in algorithms())]


Reading = Options
#: Panels of the help.
MODEL, JUDGING, OUTPUT = "Model", "Judging", "Output"
_WORKERS, _LANES = "Workers", "Lanes"

Data = Annotated[list[str], argument("Files, globs, or - for standard input.")]
Device = Annotated[
    str,
    option("cpu, cuda (a GPU, see docs/gpu.md), or auto (default): use a GPU if one is available and faster.", _LANES),
]
Lines = Annotated[list[str], argument("Files, or - for standard input. Files can be compressed: .gz, .bz2, .xz, .zst.")]
Header = Annotated[
    bool | None,
    option(
        "The first line of each file is a header and stays first (default: only in .csv and .tsv files).",
        None,
        "--header/--no-header",
    ),
]


ModelFile = Annotated[Path, option("The model file.", None, "--model", "-m")]
Algorithm = Annotated[
    str, option("The algorithm. `thinstream algorithms` lists all.", MODEL, "--algorithm", "-a", values=learner_names)
]
Algorithms = Annotated[
    list[str] | None,
    option(
        "The algorithms, separated by commas, or repeat the option (default: arow,scw,adarda).",
        MODEL,
        "--algorithm",
        "-a",
        values=learner_names,
    ),
]
ClassWeight = Annotated[
    str | None,
    option("Costs of the classes: balanced, or one cost per class in the order of --classes, such as 1,20.", MODEL),
]
Intercept = Annotated[
    bool | None,
    option("Learn an intercept (default: yes, for batch methods: no).", MODEL, "--intercept/--no-intercept"),
]

Scale = Annotated[
    str | None,
    option(
        "Divide each feature by a running scale: max (its largest |value| so far), rms (root mean square) or idf (rare "
        "features count more).",
        MODEL,
        values=("max", "rms", "idf"),
    ),
]
Normalize = Annotated[
    str | None, option("Divide each row by its Euclidean norm, after scaling: l2.", MODEL, values=("l2",))
]
Tfidf = Annotated[bool, option("Online tf-idf for texts. Short for --scale idf --normalize l2.", MODEL, "--tfidf")]


def take_tfidf(options: Any) -> None:
    """Set the options that ``--tfidf`` is short for."""
    if options.tfidf:
        for name, value in (("scale", "idf"), ("normalize", "l2")):
            if getattr(options, name) not in (None, value):
                raise InvalidParameterError(
                    f"--tfidf means --{name} {value}, and cannot be used with --{name} {getattr(options, name)}"
                )
            object.__setattr__(options, name, value)


def group_parameters(group: Any) -> list[inspect.Parameter]:
    """Return an option for each field of a dataclass. The fields of `Reading` declare theirs in their metadata."""
    if group is Reading:
        return _reading_options()
    hints = get_type_hints(group, include_extras=True)
    return [_parameter(field.name, field.default, hints[field.name]) for field in fields(group)]


def _reading_options() -> list[inspect.Parameter]:
    hints = get_type_hints(Reading)
    parameters = []
    for field in fields(Reading):
        declared = spelling(field)
        if declared.panel is None:  # commands set it themselves
            continue
        names = declared.flags if declared.switch is None else (declared.switch,)
        limits: dict[str, Any] = {"metavar": declared.metavar, "min": declared.minimum, "max": declared.maximum}
        texts = tuple(choice for choice in declared.choices if isinstance(choice, str))
        limits["values"] = formats if field.name == "format" else partial(tuple, texts)
        hint: Any = hints[field.name]
        default = field.default
        if declared.parse is not None:
            hint, default = list[str] | None if declared.repeated else str | None, None
        text = declared.help.format(formats=", ".join(formats()))
        annotation = Annotated[hint, option(text, declared.panel, *names, **limits)]
        parameters.append(_parameter(field.name, default, annotation))
    return parameters


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=annotation)


def fill_group(group: Any, values: dict[str, Any]) -> Any:
    """Return the dataclass of options with the values of the command line."""
    if group is Reading:
        for field in fields(Reading):
            parse = spelling(field).parse
            text = values.pop(field.name, None) if parse is not None else None
            if parse is not None and text is not None and text != []:
                values[field.name] = tuple(map(parse, text)) if spelling(field).repeated else parse(text)
    return group(**values)


#: Distributed runs split the examples or the features among their processes.
MODES = ("examples", "features")


@dataclass(frozen=True)
class Distributed:
    """Options for training in several processes."""

    engine: Annotated[
        str | None,
        option(
            "Train in several worker processes: ray, spark, or local (on this machine).",
            _WORKERS,
            values=("local", "ray", "spark"),
        ),
    ] = None
    workers: Annotated[int, option("The number of workers (default 2).", _WORKERS, min=1)] = 2
    mode: Annotated[
        str,
        option(
            "How to split the work. examples (default): each process learns a part of the rows. Needs --engine. "
            "features: each process has a part of the features, for models too wide for one machine. Needs mpiexec.",
            _WORKERS,
            values=MODES,
        ),
    ] = "examples"
    merge: Annotated[
        str | None,
        option("How to merge the models: sum, mean, touched … (default: the best for the algorithm).", _WORKERS),
    ] = None
    merge_every: Annotated[
        int | None,
        option("Rows per worker between two merges (default: few at first, then more and more).", _WORKERS, min=1),
    ] = None
    mini_batch: Annotated[
        int | None,
        option("Rows that --mode features scores together before it learns them (default 64).", _WORKERS, min=1),
    ] = None
    address: Annotated[str | None, option("The address of a Ray cluster, or the Spark master.", _WORKERS)] = None


@dataclass(frozen=True)
class Output:
    """How much to print."""

    quiet: Annotated[bool, option("Print only errors and requested results.", OUTPUT, "--quiet", "-q")] = False
    json: Annotated[bool, option("Print JSON, one object per line.", OUTPUT)] = False


Metrics = Annotated[
    str | None,
    option(
        "Columns of the table, separated by commas: baseline, precision, recall, f1, specificity, balanced, sum, cost, "
        "log-loss, hinge, auc, ap. sum and cost (paper P3) are shown only on request.",
        OUTPUT,
        "--metrics",
    ),
]


def parse_metrics(text: str | None, classes: "Classes") -> list[str]:
    """Return the names of ``--metrics``. Raise if a name is unknown, or not defined for this number of classes.

    >>> from thinstream.data.labels import Classes
    >>> parse_metrics("error, AUC", Classes(0, 1))
    Traceback (most recent call last):
    thinstream.errors.InvalidParameterError: --metrics must be 'baseline', 'precision', 'recall', 'f1', 'specificity',
    'balanced', 'sum', 'cost', 'log-loss', 'hinge', 'auc' or 'ap', got 'error'
    """
    from thinstream.training.formatting import require_metrics

    names = [name.strip().lower() for name in (text or "").split(",") if name.strip()]
    require_metrics(names, classes.are_two)
    return names


@dataclass(frozen=True)
class Judging:
    """How to weigh false negatives against false positives."""

    alpha_p: Annotated[
        float,
        option(
            "Weight of sensitivity in the weighted sum. Specificity has weight 1 - ALPHA_P (default 0.5).",
            JUDGING,
            min=0.0,
            max=1.0,
        ),
    ] = 0.5
    cost_p: Annotated[
        float,
        option(
            "Cost of a false negative. A false positive costs 1 - COST_P (default 0.95).", JUDGING, min=0.0, max=1.0
        ),
    ] = 0.95

    def tradeoff(self) -> "Tradeoff":
        from thinstream.training.metrics import Tradeoff

        return Tradeoff(self.alpha_p, 1.0 - self.alpha_p, self.cost_p, 1.0 - self.cost_p)


@dataclass(frozen=True)
class Study:
    """Options of commands that train many models side by side: the model, resources and output."""

    intercept: Intercept = None
    scale: Scale = None
    normalize: Normalize = None
    tfidf: Tfidf = False
    dtype: Annotated[str, option("float32 (default) or float64.", MODEL)] = "float32"
    memory: Annotated[
        str | None,
        option(
            "Memory for all models, such as 500M or 4G (default: half of the machine's memory). If it is not enough, "
            "the models train in several passes.",
            _LANES,
        ),
    ] = None
    device: Device = "auto"
    plot: Annotated[Path | None, option("Save a chart to this file (.png, .svg or .html).", OUTPUT)] = None
    csv: Annotated[Path | None, option("Write the table with all columns to this CSV file.", OUTPUT)] = None

    def __post_init__(self) -> None:
        take_tfidf(self)

    @property
    def fit_intercept(self) -> bool:
        return INTERCEPT if self.intercept is None else self.intercept


def parse_bytes(text: str | None) -> int | None:
    """Return the number of bytes of ``--memory``.

    >>> parse_bytes("1.5G"), parse_bytes("300k"), parse_bytes(None)
    (1500000000, 300000, None)
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", text)
    if match is None or float(match[1]) == 0:
        raise InvalidParameterError(f"--memory must be a number of bytes such as 500M or 4G, got {text!r}")
    return int(float(match[1]) * 1000 ** " kMGT".index(match[2] or " "))


def classes_of(reading: Reading) -> "Classes":
    """Return the labels of ``--classes``. The default is −1 and 1, or no class yet with ``--grow-classes``."""
    from thinstream.data.labels import Classes, GrowingClasses

    if reading.grow_classes:
        return GrowingClasses(*(reading.classes or ()))
    return Classes(*(reading.classes or (-1, 1)))


def parse_class_weight(text: str | None, classes: Sequence[Any]) -> Any:
    """Return "balanced", or the cost of each class."""
    if text is None or text == "balanced":
        return text
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != len(classes) or not all(0.0 < weight < float("inf") for weight in weights):
        numbers = "two numbers > 0 such as 1,20" if len(classes) == 2 else f"{len(classes)} numbers > 0, one per class"
        raise InvalidParameterError(f"--class-weight must be balanced or {numbers}, got {text!r}")
    return dict(zip(classes, weights, strict=True))


def parse_costs(text: str | None, classes: "Classes") -> "tuple[Costs, ...]":
    from thinstream.data.labels import class_costs

    return class_costs(parse_class_weight(text, classes), classes, "--class-weight")


TOKEN_VARIABLE = "THINSTREAM_TOKEN"
TokenFile = Annotated[
    Path | None,
    option(f"The file with the token (default: the environment variable {TOKEN_VARIABLE}).", None, "--token-file"),
]


def token_of(file: Path | None) -> str | None:
    return os.environ.get(TOKEN_VARIABLE) if file is None else file.read_text(encoding="utf-8").strip()


def advice_for(status: int) -> str:
    """Return advice on tokens if a server has refused a request with this status."""
    if status not in (401, 403):
        return ""
    return f". Pass a token with --token-file FILE or the environment variable {TOKEN_VARIABLE}"


# Options of an algorithm, generated from its declaration.


_WORDS = {"none": None, "true": True, "false": False}


def named_algorithms(words: Sequence[str], default: Any) -> list[str]:
    """Return the values of ``--algorithm`` (``-a``) on a command line, or the algorithm of the model of ``--from``.

    >>> named_algorithms(["day.svm", "-a", "fsol,arow", "-a", "ssol"], None)
    ['fsol', 'arow', 'ssol']
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--algorithm", "-a", action="append", default=[])
    for name in ("--engine", "--mode", "--from"):
        parser.add_argument(name, dest=name)
    try:
        values = vars(parser.parse_known_args(words)[0])
    except argparse.ArgumentError:  # the parser of the command reports it
        values = {"algorithm": [], "--engine": None, "--mode": None, "--from": None}
    if names := split_names(values["algorithm"]):
        return names
    if default is None:
        return list(DEFAULT_SEARCH)
    if (start := values["--from"]) is None:
        return [default_learner(values["--engine"], values["--mode"]) if default == DEFAULT_LEARNER else default]
    from thinstream.models.container import algorithm_in

    return [algorithm_in(start) or default]


def split_names(texts: Iterable[str]) -> list[str]:
    """Return the distinct names in texts with commas."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def algorithm_options(names: Iterable[str], *, without: Collection[str] = ()) -> list[inspect.Parameter]:
    """Return an option for each parameter of the algorithms. The first algorithm with a parameter describes it."""
    from thinstream.algorithms.registry import find

    options: dict[str, inspect.Parameter] = {}
    for name in names:
        algorithm = find(name)
        meanings = _meanings(inspect.getdoc(algorithm.rule) or "")
        panel = f"{algorithm.name} ({algorithm.paper})"
        for parameter in algorithm.parameters:
            if parameter.name not in without and parameter.name not in options:
                options[parameter.name] = _option(parameter, meanings.get(parameter.name, ""), panel)
    return list(options.values())


def _option(parameter: Any, meaning: str, panel: str) -> inspect.Parameter:
    default = "none" if parameter.default is None else parameter.default
    name = parameter.name.replace("_", "-")
    if isinstance(parameter.default, bool):
        flag: Any = Annotated[bool | None, option(f"{meaning} (default {default})", panel, f"--{name}/--no-{name}")]
        return _parameter(f"own_{parameter.name}", None, flag)
    allowed = parameter.constraint.allowed().replace("None", "none")
    text, name = f"{meaning} ({allowed}; default {default})".strip(), f"--{name}"
    choices = getattr(parameter.constraint, "choices", None)
    values = None if choices is None else lambda: choices
    annotation = Annotated[str | None, option(text, panel, name, metavar="VALUE", values=values)]
    return _parameter(f"own_{parameter.name}", None, annotation)


def explain_option(option: str, name: str) -> str:
    """Return the error message for an option of other algorithms, or "" if no algorithm has the option.

    >>> explain_option("--budget", "arow"), explain_option("--phi", "pa")
    ('', 'PA has no option --phi. Its options are --variant, --C. CW, SCW have --phi')
    """
    from thinstream.algorithms.registry import algorithms, find

    every = {algorithm.name: algorithm for algorithm in (find(name), *algorithms())}.values()
    options = {algorithm.name: [f"--{p.name.replace('_', '-')}" for p in algorithm.parameters] for algorithm in every}
    others, own = [other for other, names in options.items() if option in names], options[find(name).name]
    if not others:
        return ""
    verb = "has" if len(others) == 1 else "have"
    text = f"{find(name).name} has no option {option}. Its options are {', '.join(own)}"
    return f"{text}. {', '.join(others)} {verb} {option}"


def parse_parameters(names: Iterable[str], options: dict[str, str | bool | None]) -> dict[str, Any]:
    """Return the parameters of the algorithms that the command line specifies, and check their values."""
    from thinstream.algorithms.registry import find

    values = {}
    for algorithm in map(find, names):
        for parameter in algorithm.parameters:
            text = options.get(f"own_{parameter.name}")
            if text is None:
                continue
            value = parse_value(text) if isinstance(text, str) else text
            try:
                parameter.encode(value, algorithm.name)
            except InvalidParameterError as error:
                option = f"--{parameter.name.replace('_', '-')}"
                raise InvalidParameterError(
                    str(error).replace(f": {parameter.name} must", f": {option} must", 1)
                ) from None
            values[parameter.name] = value
    return values


def parse_value(text: str) -> Any:
    """Return a number, None, True, False, a list if there are commas, or the text itself.

    >>> parse_value("0.5"), parse_value("none"), parse_value("false"), parse_value("3,1,2"), parse_value("hinge")
    (0.5, None, False, [3, 1, 2], 'hinge')
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if "," in text:
        return [parse_value(part) for part in text.split(",") if part]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _meanings(docstring: str) -> dict[str, str]:
    """Return the description of each parameter in the docstring of a rule."""
    section = docstring.partition("Parameters\n----------\n")[2].partition("\nExamples\n")[0]
    entries = re.findall(r"^(\w+) : [^\n]*\n((?:    [^\n]*\n?)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
