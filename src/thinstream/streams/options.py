"""How a source is read: every option declared once, with its help and what the command line calls it.

`open_stream`, the options of commands, model files and caches follow from the fields of `Options`. Nothing heavy is
imported here, as ``thinstream --help`` needs it.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, NamedTuple

from thinstream.errors import InvalidParameterError, listed
from thinstream.streams.crossing.declared import Cross, as_crosses, parse_cross
from thinstream.streams.option_texts import DELIMITERS, parse_classes, parse_delimiter, parse_names, parse_zero_based
from thinstream.streams.text.wording import as_range, as_stop_list, parse_range

#: Bad records passed over before it is one too many.
MAX_ERRORS = 1000
#: Bytes of the longest record.
MAX_LINE = 1 << 26
#: Records looked at before a source is read.
LOOK = 10_000
#: Named features are hashed into 2^BITS numbers unless told otherwise.
BITS, MOST_BITS = 22, 62
COLUMNS = "Columns and features"
#: How columns of text are taken apart.
WORDING = ("ngrams", "chars", "lower", "stop", "binary")
#: What cells that say nothing may be.
MISSING = ("indicator", "ignore", "error", "as-is")
#: What such cells hold, in every format; and nothing.
NOTHING = ("NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")


class Spelling(NamedTuple):
    """What is known of an option besides its default."""

    help: str  # with {formats} where the names of all formats belong
    panel: str | None = "Reading"  # under which the command line's help lists it; None: a command sets it itself
    parse: Callable[[str], Any] | None = None  # from a text of the command line to a value; None: typer knows how
    metavar: str | None = None
    choices: tuple[Any, ...] = ()  # all values there are; (): any
    minimum: int | None = None
    maximum: int | None = None
    switch: str | None = None  # flags of a bool
    flags: tuple[str, ...] = ()  # what the command line calls it, if not by its name
    remembered: bool = False  # whether a model file keeps it: it tells what is no feature
    in_space: bool = False  # whether it is part of what feature numbers mean
    common: bool = False  # whether all formats take it
    repeated: bool = False  # whether it may stand several times on the command line, one item each


def spelling(option: Field[Any]) -> Spelling:
    """What a field of `Options` declares."""
    found: Spelling = option.metadata["spelling"]
    return found


def _option(default: Any, help: str, **more: Any) -> Any:  # noqa: A002 (typer's word)
    return field(default=default, metadata={"spelling": Spelling(help, **more)})


@dataclass(frozen=True)
class Options:
    """How a source is read; each format takes the options that concern it and refuses the others."""

    format: str | None = _option(
        None,
        "{formats}; by default the file's ending tells, else libsvm.",
        common=True,
    )
    classes: tuple[Any, ...] | None = _option(
        None,
        "The two labels NEG,POS, or more: A,B,C. By default found by looking, the later of two in order positive.",
        metavar="NEG,POS",
        parse=parse_classes,
    )
    grow_classes: bool = _option(
        False, "Whether classes are found as they come, those of ``classes`` first.", panel=None
    )
    zero_based: bool | str = _option(
        False,
        "Whether libsvm indices begin at 0: no, yes, or auto (looks through the files first).",
        parse=parse_zero_based,
        choices=(False, True, "auto"),
        in_space=True,
    )
    normalize: str | None = _option(  # the command line leaves it to the model
        None, "Scale each row to unit length: l2.", panel=None, choices=(None, "l2"), in_space=True, common=True
    )
    on_error: str = _option(
        "raise",
        "What to do with a bad record: raise (stop) or skip (count and report).",
        choices=("raise", "skip"),
        common=True,
    )
    max_errors: int = _option(
        MAX_ERRORS, f"Bad records skipped at most (default {MAX_ERRORS}).", minimum=0, common=True
    )
    max_line: int = _option(
        MAX_LINE, f"Bytes a line of text may have (default {MAX_LINE}).", metavar="BYTES", minimum=1, common=True
    )
    threads: int | None = _option(
        None,
        "Threads that parse (default: one per core); 0: the one that learns parses, too.",
        minimum=0,
        flags=("--jobs", "-j"),
        common=True,
    )
    look: int = _option(
        LOOK,
        f"Records looked at first to find classes and columns (default {LOOK}); 0: none.",
        metavar="RECORDS",
        minimum=0,
        common=True,
    )
    label: str = _option("label", "Column (or key) of the label (default label).", panel=COLUMNS, remembered=True)
    weight: str | None = _option(None, "Column of the examples' weights.", panel=COLUMNS, remembered=True)
    text: tuple[str, ...] = _option(
        (), "Columns of text, split into words: a,b,c.", panel=COLUMNS, parse=parse_names, in_space=True
    )
    ngrams: tuple[int, int] | None = _option(
        None,
        "Words of texts in a row that are a feature: 1-2 (default 1; none where --chars is given).",
        panel=COLUMNS,
        parse=parse_range,
        metavar="LOW-HIGH",
        in_space=True,
    )
    chars: tuple[int, int] | None = _option(
        None,
        "Characters of texts in a row that are a feature: 3-5.",
        panel=COLUMNS,
        parse=parse_range,
        metavar="LOW-HIGH",
        in_space=True,
    )
    lower: bool = _option(
        True, "Whether texts are taken in lower case.", panel=COLUMNS, switch="--lower/--no-lower", in_space=True
    )
    stop: tuple[str, ...] = _option(
        (),
        "Words of texts left out: english, a file of words, or a,b,c.",
        panel=COLUMNS,
        parse=as_stop_list,
        metavar="WORDS",
        in_space=True,
    )
    binary: bool = _option(
        False, "Count a word that a row has several times once.", panel=COLUMNS, switch="--binary", in_space=True
    )
    categorical: tuple[str, ...] = _option(
        (),
        "Columns that are categories even where they look like numbers.",
        panel=COLUMNS,
        parse=parse_names,
        in_space=True,
    )
    numeric: tuple[str, ...] = _option(
        (), "Columns that must be numbers.", panel=COLUMNS, parse=parse_names, remembered=True
    )
    dates: tuple[str, ...] = _option(
        (),
        "Columns of dates or times as in 2024-05-17 or 2024-05-17T13:05: year, month, day, weekday, hour.",
        panel=COLUMNS,
        parse=parse_names,
        remembered=True,
    )
    missing: str = _option(
        "indicator",
        "What NA, N/A, NaN, nan, null, NULL, None, ? and nothing in a cell are: a feature COLUMN=? (indicator, the "
        "default), no feature (ignore), an error (error), or words like any other, nothing being no feature (as-is).",
        panel=COLUMNS,
        metavar="|".join(MISSING),
        choices=MISSING,
        remembered=True,
    )
    ignore: tuple[str, ...] = _option((), "Columns left out.", panel=COLUMNS, parse=parse_names, remembered=True)
    header: bool | None = _option(
        None,
        "Whether the first line of a CSV file names its columns, else c1, c2 … (default: it does, unless the label is "
        "called so and the line holds numbers).",
        panel=COLUMNS,
        switch="--header/--no-header",
        remembered=True,
    )
    delimiter: str | None = _option(
        None,
        "What stands between the cells of CSV: , ; | or a tab (default: what the first line has).",
        panel=COLUMNS,
        metavar="CHARACTER",
        parse=parse_delimiter,
        choices=(None, *DELIMITERS),
    )
    bits: int | None = _option(
        None,
        f"Named features are hashed into 2^bits numbers (default {BITS}).",
        panel=COLUMNS,
        minimum=1,
        maximum=MOST_BITS,
        in_space=True,
    )
    signed: bool = _option(
        False, "Give hashed features a random sign.", panel=COLUMNS, switch="--signed", in_space=True
    )
    cross: tuple[Cross, ...] = _option(
        (),
        "Add the products of the features of two columns (or namespaces) or more: a,b or a,b,c. May be given again.",
        panel=COLUMNS,
        parse=parse_cross,
        metavar="A,B",
        in_space=True,
        repeated=True,
    )
    names: int = _option(
        0, "Remember up to this many names of hashed features (default 0: none).", panel=COLUMNS, minimum=0
    )
    id: str | None = _option(None, "Column (or key) that tells what a row is called; of VW its tag.", panel=None)
    dtype: str = _option("float32", "Type of the values.", panel=None, choices=("float32", "float64"), common=True)
    labels: bool = _option(True, "Whether every example must have a label.", panel=None, common=True)
    strict: bool = _option(True, "Whether columns that are named here must be there.", panel=None, common=True)
    found: tuple[str, ...] | None = _option(
        None, "Which of these were found by looking; None: nobody has looked yet.", panel=None, common=True
    )
    columns: tuple[str, ...] = _option((), "Columns a model has learned from, which must be there.", panel=None)
    keys: tuple[str, ...] = _option((), "Keys that all objects looked at have, if these are the same.", panel=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cross", as_crosses(self.cross))
        object.__setattr__(self, "ngrams", as_range("ngrams", self.ngrams))
        object.__setattr__(self, "chars", as_range("chars", self.chars))
        object.__setattr__(self, "stop", as_stop_list(self.stop))

    def check(self) -> None:
        """Raises on a value that is not allowed."""
        for option in fields(self):
            value, choices = getattr(self, option.name), spelling(option).choices
            if choices and value not in choices:
                raise InvalidParameterError(f"{option.name} must be {listed(choices)}, got {value!r}")
            if option.type is bool and not isinstance(value, bool):
                hint = "; label= names the column" if option.name == "labels" else ""
                raise InvalidParameterError(f"{option.name} must be True or False, got {value!r}{hint}")
        looked = self.found is not None or not self.look  # else text may still be found
        if looked and not self.text and (wording := [name for name in WORDING if name in self.given()]):
            raise InvalidParameterError(
                f"{wording[0]} is for columns of text, which text= (--text) names, got {getattr(self, wording[0])!r}"
            )
        if self.threads is not None and self.threads < 0:
            raise InvalidParameterError(
                f"threads must be a number of threads, 0 or more, or None, got {self.threads!r}"
            )

    def given(self) -> dict[str, Any]:
        """The options that are not at their defaults."""
        return {o.name: getattr(self, o.name) for o in fields(self) if getattr(self, o.name) != o.default}

    def arguments(self) -> list[str]:
        """The words of a command line that give these options, those found by looking left out.

        >>> Options(classes=(0, 2), header=False, zero_based=True, cross=[("a", "b"), ("a", "c")]).arguments()
        ['--classes', '0,2', '--zero-based', 'yes', '--no-header', '--cross', 'a,b', '--cross', 'a,c']
        """
        words: list[str] = []
        for name, value in self.given().items():
            declared = spelling(OPTIONS[name])
            if name in (self.found or ()):
                continue
            if declared.switch is not None:
                words.append(declared.switch.split("/")[0 if value else -1])
            elif declared.panel is not None:
                flag = declared.flags[0] if declared.flags else f"--{name.replace('_', '-')}"
                for each in value if declared.repeated else (value,):
                    words += [flag, ("yes" if each else "no") if isinstance(each, bool) else _shown(each)]
        return words


#: The declarations by name.
OPTIONS: dict[str, Field[Any]] = {option.name: option for option in fields(Options)}
_LINES = [
    f"{name} : {getattr(option.type, '__name__', option.type)}\n    {spelling(option).help}"
    for name, option in OPTIONS.items()
]
Options.__doc__ = "\n".join([f"{Options.__doc__}\n\nParameters\n----------", *_LINES]).format(formats="A format's name")


def remembered(options: Options) -> dict[str, Any]:
    """What a model file keeps of how its data was read, besides its feature space, as JSON has it.

    >>> remembered(Options(label="spam", ignore=("id",), bits=18))
    {'label': 'spam', 'ignore': ['id']}
    """
    kept = {name: value for name, value in options.given().items() if spelling(OPTIONS[name]).remembered}
    if kept.get("header"):  # as if it had not been said: only that there is none is news
        del kept["header"]
    return {name: _json(value) for name, value in kept.items()}


#: What a model file keeps of files that have cells: which, in the last one; and of objects with the same keys: which.
LAYOUT, KEYS = "layout", "keys"


def how_read(stream: Any, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a model file keeps of how a stream was read, and of the columns it was `known` to have learned from before.

    The columns of features are told by what has been read of the stream.
    """
    options, known = getattr(stream, "options", None), known or {}
    found = {**known, **getattr(stream, "remembered", {})} if options is None else remembered(options)
    columns = sorted({*known.get("columns", ()), *getattr(stream, "feature_columns", ())})
    found |= {"missing": missing} if (missing := getattr(stream, "missing", None)) else {}
    if strayed := getattr(stream, "strayed", ()):
        found["numeric"] = [name for name in found["numeric"] if name not in strayed]
    if keys := getattr(stream, "keys", None) or known.get(KEYS):
        found[KEYS] = [*keys]
    layout = getattr(stream, "layout", None) or known.get(LAYOUT)
    return found | ({"columns": columns} if columns else {}) | ({LAYOUT: layout} if layout else {})


def as_learned(options: Options, format: str, model: Any, named: str) -> Options:  # noqa: A002
    """The options with what a `models.Model` was trained with, as far as the format takes it; contradictions raise.

    ``options`` are those that were given, ``format`` is that of the data, ``named`` is what errors call the model.
    """
    from thinstream.streams.formats import find_format

    learned = in_feature_space(model.feature_space)
    if tuple(model.classes) != (-1, 1) or model.classes.grow:
        learned["classes"] = tuple(model.classes)
    if model.classes.grow:
        learned["grow_classes"] = True
    given = options.given()
    # zero_based may be "auto"; if that finds otherwise, the feature spaces will differ. Classes may come later.
    free = ("zero_based", "classes") if model.classes.grow else ("zero_based",)
    for name, value in learned.items():
        if name in given and name not in free and not _same(name, given[name], value):
            raise InvalidParameterError(
                f"{named} learned with {name} {_shown(value)}; it cannot be used with {_shown(given[name])}"
            )
    kept = {name: as_tuples(had) for name, had in model.reading.items() if name not in (LAYOUT, KEYS)} | learned
    known = find_format(format)
    if known.has_cells or known.is_table:  # else keys may be absent
        kept.setdefault("columns", tuple(model.reading.get(KEYS, ())))
    kept.setdefault("missing", "as-is")  # for models without a value, such as the new models of `thinstream serve`
    kept = {n: value for n, value in kept.items() if n not in given and known.takes(n)}
    return replace(options, found=(), **kept)  # the model knows what there is to be found


def feature_space(options: Options, *, hashed: bool) -> dict[str, Any]:
    """What feature numbers mean: all that a model must find again when it predicts.

    >>> feature_space(Options(normalize="l2"), hashed=False)
    {'normalize': 'l2'}
    """
    space: dict[str, Any] = {}
    if hashed:
        from thinstream.streams.text.hashing import Hashing

        space["hashing"] = Hashing.of(options).as_dict()
        space |= {name: sorted(getattr(options, name)) for name in ("text", "categorical") if getattr(options, name)}
        space |= {name: _json(value) for name, value in options.given().items() if name in WORDING}
        space |= {"cross": [list(cross) for cross in options.cross]} if options.cross else {}
    elif options.zero_based is True:
        space["zero_based"] = True
    if options.normalize is not None:
        space["normalize"] = options.normalize
    return space


def in_feature_space(space: Mapping[str, Any]) -> dict[str, Any]:
    """The options that give a feature space, those at their defaults left out.

    >>> in_feature_space({"hashing": {"bits": 18, "signed": False}, "text": ["subject"]})
    {'text': ('subject',), 'bits': 18}
    """
    found = {**space, **space.get("hashing", {})}
    values = {n: found[n] for n, option in OPTIONS.items() if n in found and spelling(option).in_space}
    values = {name: as_tuples(value) for name, value in values.items()}
    return {name: value for name, value in values.items() if value != OPTIONS[name].default}


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def as_tuples(value: Any) -> Any:
    """Lists, as JSON has them, and lists in them, as tuples; anything else as it is."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def _same(name: str, given: Any, learned: Any) -> bool:
    """Whether two values of an option mean the same: labels as they are written, columns in any order."""
    if name == "classes":
        return [*map(str, given)] == [*map(str, learned)]
    return sorted(given) == sorted(learned) if isinstance(given, tuple) else bool(given == learned)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return (" and " if value and isinstance(value[0], tuple) else ",").join(map(_shown, value))
    return str(value)
