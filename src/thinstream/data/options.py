"""Options for reading data: their declarations, values from the command line, and how models store them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import Field, dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from thinstream.errors import InvalidInputError, InvalidParameterError, listed, meant

if TYPE_CHECKING:
    from thinstream.data.stream import Stream


# Values of options from the command line.

#: The delimiters that CSV may have.
DELIMITERS = (",", "\t", ";", "|")


def parse_names(text: str) -> tuple[str, ...]:
    """Parse column names.

    >>> parse_names("city, zip")
    ('city', 'zip')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_number(text: str) -> float:
    """Parse a finite number.

    >>> parse_number("1e5")
    100000.0
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidParameterError(f"--positive-above must be a number, got {text!r}")
    return number


def parse_classes(text: str) -> tuple[Any, ...]:
    """Parse labels, as numbers if all of them are.

    >>> parse_classes("ham,spam"), parse_classes("0,1.0,2.5")
    (('ham', 'spam'), (0, 1, 2.5))
    """
    parts = [part.strip() for part in text.split(",")]
    labels: list[Any] = parts
    try:
        numbers = [float(part) for part in parts]
        labels = [int(number) if number.is_integer() else number for number in numbers]
    except (ValueError, OverflowError):
        pass
    if len(labels) < 2 or not all(parts) or len(set(labels)) < len(labels):
        raise InvalidParameterError(
            f"--classes must be two or more different labels, as in NEG,POS or A,B,C, got {text!r}"
        )
    return tuple(labels)


def parse_delimiter(text: str) -> str:
    r"""Parse a delimiter; a tab may be written as ``tab``.

    >>> parse_delimiter(";"), parse_delimiter("tab"), parse_delimiter("\\t")
    (';', '\t', '\t')
    """
    delimiter = "\t" if text in ("tab", "\\t") else text
    if delimiter not in DELIMITERS:
        raise InvalidParameterError(f"--delimiter must be {listed(DELIMITERS)}, got {text!r}")
    return delimiter


#: The most words or characters in an n-gram.
LONGEST = 16
#: The stop lists that thinstream contains.
STOP_LISTS = ("english",)
Range = tuple[int, int]


def parse_range(text: str) -> Range:
    """Parse a range from the command line.

    >>> parse_range("1-2"), parse_range("3")
    ((1, 2), (3, 3))
    """
    low, _, high = text.replace(",", "-").partition("-")
    try:
        return int(low), int(high or low)
    except ValueError:
        raise InvalidParameterError(f"a range must be a number or LOW-HIGH, as in 3 or 1-2, got {text!r}") from None


def as_range(name: str, value: Any) -> Range | None:
    """Return the checked range of an option such as ``ngrams``."""
    if value is None:
        return None
    bounds = (
        parse_range(value) if isinstance(value, str) else (value, value) if isinstance(value, int) else tuple(value)
    )
    whole = len(bounds) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in bounds)
    if not whole or not 1 <= bounds[0] <= bounds[1] <= LONGEST:
        raise InvalidParameterError(f"{name} must be LOW-HIGH with 1 ≤ LOW ≤ HIGH ≤ {LONGEST}, got {value!r}")
    return bounds[0], bounds[1]


def as_stop_list(words: Any) -> tuple[str, ...]:
    """Return the stop words of a list, of a built-in list by its name, of a file, or of comma-separated text.

    >>> as_stop_list("the,a"), as_stop_list(["an"]), "the" in as_stop_list("english")
    (('a', 'the'), ('an',), True)
    """
    if isinstance(words, str):
        if words in STOP_LISTS:
            words = files("thinstream.data.text").joinpath(f"{words}.txt").read_text("utf-8").split()
        elif "," not in words:
            if not Path(words).is_file():
                raise InvalidParameterError(
                    f"stop must be {listed(STOP_LISTS)}, a file of words, or words separated by commas (a single word "
                    f"as 'word,'), got {words!r}, which is not a file"
                )
            words = Path(words).read_text("utf-8").split()
        else:
            words = [word.strip() for word in words.split(",") if word.strip()]
    if not all(isinstance(word, str) for word in words):
        raise InvalidParameterError(f"stop must be a list of words, got {words!r}")
    return tuple(sorted(set(words)))


_ZERO_BASED: dict[str, bool | str] = {"no": False, "yes": True, "auto": "auto"}


def parse_zero_based(text: str) -> bool | str:
    """Parse "yes", "no" or "auto".

    >>> parse_zero_based("yes")
    True
    """
    if text not in _ZERO_BASED:
        raise InvalidParameterError(f"--zero-based must be {listed(_ZERO_BASED)}, got {text!r}")
    return _ZERO_BASED[text]


# Crosses as options. This module must import quickly, so `thinstream.data.crosses` has the rest.

#: Joins the names of crossed features.
MARK = " × "
#: The most different names in all crosses: each has one bit of a 64-bit number.
MOST_NAMES = 63
Cross = tuple[str, ...]


def parse_cross(text: str) -> Cross:
    """Parse one cross from the command line.

    >>> parse_cross("user, item")
    ('user', 'item')
    """
    names = tuple(part.strip() for part in text.split(","))
    if len(names) < 2 or not all(names):
        raise InvalidParameterError(f"--cross must be two or more column names, as in user,item, got {text!r}")
    return names


def as_crosses(crosses: Any) -> tuple[Cross, ...]:
    """Return crosses, checked and sorted.

    >>> as_crosses([("user", "item"), ("age", "age")])
    (('age', 'age'), ('user', 'item'))
    """
    if not isinstance(crosses, Sequence) or isinstance(crosses, str):
        raise InvalidParameterError(
            f'cross must be a list of tuples of column names, as in [("user", "item")], got {crosses!r}'
        )
    seen: set[Cross] = set()
    for cross in crosses:
        names = [] if isinstance(cross, str) or not isinstance(cross, Sequence) else list(cross)
        if len(names) < 2 or not all(isinstance(name, str) and name for name in names):
            raise InvalidParameterError(
                f'a cross must have two or more column names, as in cross=[("user", "item")], got {cross!r}'
            )
        if tuple(sorted(names)) in seen:
            raise InvalidParameterError(
                f"each cross may occur only once, in any order of its names, got {cross!r} again"
            )
        seen.add(tuple(sorted(names)))
    unique = sorted(tuple(cross) for cross in crosses)
    if len(names_of(unique)) > MOST_NAMES:
        raise InvalidParameterError(
            f"crosses may have at most {MOST_NAMES} different names, got {len(names_of(unique))}"
        )
    return tuple(unique)


def names_of(crosses: Iterable[Cross]) -> list[str]:
    """Return the different names in crosses, in order of appearance.

    >>> names_of([("user", "item"), ("user", "day")])
    ['user', 'item', 'day']
    """
    return list(dict.fromkeys(name for cross in crosses for name in cross))


def answers(column: str, name: str) -> bool:
    """Return whether a name in a cross refers to a column, or to the object or list that contains it.

    >>> answers("user", "user"), answers("user.age", "user"), answers("size[0]", "size"), answers("user", "use")
    (True, True, True, False)
    """
    return column == name or column.startswith((f"{name}.", f"{name}["))


def require_columns(crosses: Iterable[Cross], columns: Sequence[str], source: str = "") -> None:
    """Raise if a name in a cross refers to none of the feature columns; ``source`` is the prefix of the message."""
    for name in names_of(crosses):
        if not any(answers(column, name) for column in columns):
            where = f"{source}: " if source else ""
            raise InvalidInputError(f"{where}cross: there is no feature column {name!r}; {meant(name, columns)}")


# Every reading option is declared once, with its help text and command-line flags.
#
# `open_stream`, commands, model files and caches all use these declarations. This module imports no NumPy, because
# ``thinstream --help`` needs it.

#: The most bad records to skip.
MAX_ERRORS = 1000
#: The most bytes of a record.
MAX_LINE = 1 << 26
#: Records from which the schema is inferred.
LOOK = 10_000
#: The default and the largest number of bits of a hashed feature's index.
BITS, MOST_BITS = 22, 62
COLUMNS = "Columns and features"
#: Options for tokenizing text columns.
WORDING = ("ngrams", "chars", "lower", "stop", "binary")
#: Treatments of missing cells.
MISSING = ("indicator", "ignore", "error", "as-is")
#: Words for missing values, in every format. An empty cell is also missing.
NOTHING = ("NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")


class Spelling(NamedTuple):
    """The declaration of an option: everything except its default."""

    help: str  # {formats} is replaced by the names of all formats
    panel: str | None = "Reading"  # the section of the command line's help; None: not a command-line option
    parse: Callable[[str], Any] | None = None  # converts a command-line argument; None: according to its type
    metavar: str | None = None
    choices: tuple[Any, ...] = ()  # allowed values; (): any
    minimum: int | None = None
    maximum: int | None = None
    switch: str | None = None  # command-line flags of a bool
    flags: tuple[str, ...] = ()  # command-line flags, if they differ from the name
    remembered: bool = False  # whether model files store it, as it affects which columns are features
    in_space: bool = False  # whether it is part of the feature space
    common: bool = False  # whether all formats accept it
    repeated: bool = False  # whether the flag may be repeated, one item each time


def spelling(option: Field[Any]) -> Spelling:
    """Return the declaration of a field of `Options`."""
    declaration: Spelling = option.metadata["spelling"]
    return declaration


def _option(default: Any, help: str, **more: Any) -> Any:  # noqa: A002 (argparse's word)
    return field(default=default, metadata={"spelling": Spelling(help, **more)})


@dataclass(frozen=True)
class Options:
    """How a source is read. Each format accepts the options that apply to it and refuses the others."""

    format: str | None = _option(
        None,
        "{formats}. By default, detected from the file extension or content, else libsvm.",
        common=True,
    )
    classes: tuple[Any, ...] | None = _option(
        None,
        "The labels: NEG,POS for two classes, or A,B,C. By default inferred. The rarer of two words is positive, "
        "except for pairs such as no/yes, false/true and ham/spam.",
        metavar="NEG,POS",
        parse=parse_classes,
    )
    positive_above: float | None = _option(
        None,
        "Labels are numbers, and those above this number are positive.",
        parse=parse_number,
        metavar="NUMBER",
        remembered=True,
        common=True,
    )
    grow_classes: bool = _option(
        False,
        "Whether labels that occur for the first time become new classes, after those of ``classes``.",
        panel=None,
    )
    zero_based: bool | str = _option(
        False,
        "Whether libsvm indices start at 0: no, yes, or auto (reads the files once to find out).",
        parse=parse_zero_based,
        choices=(False, True, "auto"),
        in_space=True,
    )
    normalize: str | None = _option(  # the command line leaves it to the model
        None, "Scale each row to unit length: l2.", panel=None, choices=(None, "l2"), in_space=True, common=True
    )
    on_error: str = _option(
        "raise",
        "How to handle a bad record: raise (stop with an error) or skip (count and report it).",
        choices=("raise", "skip"),
        common=True,
    )
    max_errors: int = _option(
        MAX_ERRORS, f"The most bad records to skip (default {MAX_ERRORS}).", minimum=0, common=True
    )
    max_line: int = _option(
        MAX_LINE, f"The most bytes in a line of text (default {MAX_LINE}).", metavar="BYTES", minimum=1, common=True
    )
    threads: int | None = _option(
        None,
        "Number of parsing threads (default: one per core). 0: parse in the learning thread.",
        minimum=0,
        flags=("--jobs", "-j"),
        common=True,
    )
    look: int = _option(
        LOOK,
        f"Number of records from which classes and column types are inferred (default {LOOK}). 0: infer nothing.",
        metavar="RECORDS",
        minimum=0,
        common=True,
    )
    label: str = _option("label", "Column (or JSON key) of the label (default label).", panel=COLUMNS, remembered=True)
    weight: str | None = _option(None, "Column of the row weights.", panel=COLUMNS, remembered=True)
    text: tuple[str, ...] = _option(
        (), "Text columns, which are split into words: a,b,c.", panel=COLUMNS, parse=parse_names, in_space=True
    )
    ngrams: tuple[int, int] | None = _option(
        None,
        "Lengths of word n-grams in text columns, for example 1-2 (default 1, or none with --chars).",
        panel=COLUMNS,
        parse=parse_range,
        metavar="LOW-HIGH",
        in_space=True,
    )
    chars: tuple[int, int] | None = _option(
        None,
        "Lengths of character n-grams in text columns, for example 3-5.",
        panel=COLUMNS,
        parse=parse_range,
        metavar="LOW-HIGH",
        in_space=True,
    )
    lower: bool = _option(
        True, "Whether text is converted to lower case.", panel=COLUMNS, switch="--lower/--no-lower", in_space=True
    )
    stop: tuple[str, ...] = _option(
        (),
        "Stop words to remove from text: english, a file of words, or a,b,c.",
        panel=COLUMNS,
        parse=as_stop_list,
        metavar="WORDS",
        in_space=True,
    )
    binary: bool = _option(
        False,
        "Count a word once per row, even if it occurs several times.",
        panel=COLUMNS,
        switch="--binary",
        in_space=True,
    )
    categorical: tuple[str, ...] = _option(
        (),
        "Categorical columns, even if their cells look like numbers.",
        panel=COLUMNS,
        parse=parse_names,
        in_space=True,
    )
    numeric: tuple[str, ...] = _option(
        (), "Numeric columns: any other cell is an error.", panel=COLUMNS, parse=parse_names, remembered=True
    )
    dates: tuple[str, ...] = _option(
        (),
        "Columns of dates or times such as 2024-05-17 or 2024-05-17T13:05. They give year, month, day, weekday and "
        "hour.",
        panel=COLUMNS,
        parse=parse_names,
        remembered=True,
    )
    missing: str = _option(
        "indicator",
        "How to treat missing cells (empty, NA, N/A, NaN, nan, null, NULL, None, ?): a feature COLUMN=? (indicator, "
        "the default), no feature (ignore), an error (error), or ordinary words, with no feature for an empty cell "
        "(as-is).",
        panel=COLUMNS,
        metavar="|".join(MISSING),
        choices=MISSING,
        remembered=True,
    )
    ignore: tuple[str, ...] = _option((), "Columns to ignore.", panel=COLUMNS, parse=parse_names, remembered=True)
    header: bool | None = _option(
        None,
        "Whether the first line of a CSV file has the column names; otherwise columns are called c1, c2, … (default: "
        "yes, unless the label column has such a name and the line contains numbers).",
        panel=COLUMNS,
        switch="--header/--no-header",
        remembered=True,
    )
    delimiter: str | None = _option(
        None,
        "Delimiter of CSV cells: , ; | or tab (default: detected from the first line).",
        panel=COLUMNS,
        metavar="CHARACTER",
        parse=parse_delimiter,
        choices=(None, *DELIMITERS),
    )
    bits: int | None = _option(
        None,
        f"Number of bits of hashed feature indices: 2^bits features (default {BITS}).",
        panel=COLUMNS,
        minimum=1,
        maximum=MOST_BITS,
        in_space=True,
    )
    signed: bool = _option(
        False, "Give each hashed feature a sign taken from its hash.", panel=COLUMNS, switch="--signed", in_space=True
    )
    cross: tuple[Cross, ...] = _option(
        (),
        "Add crossed features, the products of features of two or more columns (or namespaces): a,b or a,b,c. "
        "Repeatable.",
        panel=COLUMNS,
        parse=parse_cross,
        metavar="A,B",
        in_space=True,
        repeated=True,
    )
    names: int = _option(
        0,
        "Store up to this many names of hashed features (0: none). By default, train stores those with large effects.",
        panel=COLUMNS,
        minimum=0,
    )
    names_rows: int | None = _option(
        None, "Number of first rows from which names are stored; None: all.", panel=None, common=True
    )
    id: str | None = _option(
        None, "Column (or JSON key) with the id of a row; for VW, any value selects the tag.", panel=None
    )
    dtype: str = _option("float32", "Data type of the values.", panel=None, choices=("float32", "float64"), common=True)
    labels: bool = _option(True, "Whether every row must have a label.", panel=None, common=True)
    strict: bool = _option(True, "Whether the columns named here must exist.", panel=None, common=True)
    inferred: tuple[str, ...] | None = _option(
        None, "Names of the options that were inferred; None: nothing has been inferred yet.", panel=None, common=True
    )
    columns: tuple[str, ...] = _option((), "Columns that a model has learned from, which must exist.", panel=None)
    keys: tuple[str, ...] = _option(
        (), "Keys of the JSON objects from which the schema was inferred, if all objects had the same keys.", panel=None
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "cross", as_crosses(self.cross))
        object.__setattr__(self, "ngrams", as_range("ngrams", self.ngrams))
        object.__setattr__(self, "chars", as_range("chars", self.chars))
        object.__setattr__(self, "stop", as_stop_list(self.stop))

    def check(self) -> None:
        """Raise if a value is not allowed."""
        for option in fields(self):
            value, choices = getattr(self, option.name), spelling(option).choices
            if choices and value not in choices:
                raise InvalidParameterError(f"{option.name} must be {listed(choices)}, got {value!r}")
            if option.type is bool and not isinstance(value, bool):
                hint = ". Use label= for the name of the label column" if option.name == "labels" else ""
                raise InvalidParameterError(f"{option.name} must be True or False, got {value!r}{hint}")
        if self.positive_above is not None and (self.classes is not None or self.grow_classes):
            raise InvalidParameterError(
                "positive_above is for numeric labels, so it cannot be combined with classes or grow_classes. Leave "
                "one out."
            )
        is_inferred = self.inferred is not None or not self.look  # otherwise text columns may still be inferred
        if is_inferred and not self.text and (wording := [name for name in WORDING if name in self.given()]):
            raise InvalidParameterError(
                f"{wording[0]} is an option for text columns, but there are none, got {getattr(self, wording[0])!r}. "
                "Name the text columns with text= (--text)."
            )
        if self.threads is not None and self.threads < 0:
            raise InvalidParameterError(f"threads must be None or an integer of 0 or more, got {self.threads!r}")

    def given(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        return {o.name: getattr(self, o.name) for o in fields(self) if getattr(self, o.name) != o.default}

    def arguments(self) -> list[str]:
        """Return command-line arguments that set these options, without those that were inferred.

        >>> Options(classes=(0, 2), header=False, zero_based=True, cross=[("a", "b"), ("a", "c")]).arguments()
        ['--classes', '0,2', '--zero-based', 'yes', '--no-header', '--cross', 'a,b', '--cross', 'a,c']
        """
        words: list[str] = []
        for name, value in self.given().items():
            declared = spelling(OPTIONS[name])
            if name in (self.inferred or ()):
                continue
            if declared.switch is not None:
                words.append(declared.switch.split("/")[0 if value else -1])
            elif declared.panel is not None:
                flag = declared.flags[0] if declared.flags else f"--{name.replace('_', '-')}"
                for item in value if declared.repeated else (value,):
                    words += [flag, ("yes" if item else "no") if isinstance(item, bool) else _shown(item)]
        return words


#: The declarations by name.
OPTIONS: dict[str, Field[Any]] = {option.name: option for option in fields(Options)}
_LINES = [
    f"{name} : {getattr(option.type, '__name__', option.type)}\n    {spelling(option).help}"
    for name, option in OPTIONS.items()
]
Options.__doc__ = "\n".join([f"{Options.__doc__}\n\nParameters\n----------", *_LINES]).format(formats="A format's name")


def remembered(options: Options) -> dict[str, Any]:
    """Return the options that a model file stores in addition to its feature space, as JSON values.

    >>> remembered(Options(label="spam", ignore=("id",), bits=18))
    {'label': 'spam', 'ignore': ['id']}
    """
    stored = {name: value for name, value in options.given().items() if spelling(OPTIONS[name]).remembered}
    if stored.get("header"):  # the default, which may also be passed explicitly
        del stored["header"]
    return {name: _json(value) for name, value in stored.items()}


#: Entries of ``reading`` in model files: the cells of the last CSV file, and the keys that all JSON objects share.
LAYOUT, KEYS = "layout", "keys"


class ReadingSpec(NamedTuple):
    """How rows were read, so that other rows can be read the same way.

    Parameters
    ----------
    feature_space : dict
        The meaning of feature indices, as `feature_space` returns it. {}: they are column numbers.
    reading : dict
        Reading options that are not part of the feature space, such as the label column, as `how_read` returns them.
    classes : tuple
        The class labels. (-1, 1): labels are numbers, and those above 0 are positive.
    grow_classes : bool
        Whether labels that are not among the classes become new classes.
    dtype : {"float32", "float64"}
        The type of the values.
    n_features : int
        The number of features.

    Examples
    --------
    >>> spec = ReadingSpec({"hashing": {"bits": 18}}, {"label": "spam"}, classes=("no", "yes"))
    >>> options = as_learned(Options(), "csv", spec, "the model")
    >>> options.label, options.bits, options.classes
    ('spam', 18, ('no', 'yes'))

    """

    feature_space: Mapping[str, Any] = MappingProxyType({})
    reading: Mapping[str, Any] = MappingProxyType({})
    classes: tuple[Any, ...] = (-1, 1)
    grow_classes: bool = False
    dtype: str = "float32"
    n_features: int = 0

    @property
    def is_hashed(self) -> bool:
        """Whether features have names, which are hashed into feature numbers."""
        return "hashing" in self.feature_space


def how_read(stream: "Stream", earlier: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return how a stream was read, for a model file; ``earlier`` is the same from before, if the model had learned.

    The feature columns are those of the part that has been read.
    """
    options, earlier = getattr(stream, "options", None), earlier or {}
    reading = {**earlier, **getattr(stream, "remembered", {})} if options is None else remembered(options)
    columns = sorted({*earlier.get("columns", ()), *getattr(stream, "feature_columns", ())})
    reading |= {"missing": missing} if (missing := getattr(stream, "missing", None)) else {}
    if strayed := getattr(stream, "strayed", ()):
        reading["numeric"] = [name for name in reading["numeric"] if name not in strayed]
    if keys := getattr(stream, "keys", None) or earlier.get(KEYS):
        reading[KEYS] = [*keys]
    layout = getattr(stream, "layout", None) or earlier.get(LAYOUT)
    return reading | ({"columns": columns} if columns else {}) | ({LAYOUT: layout} if layout else {})


def as_learned(options: Options, format: str, spec: ReadingSpec, named: str) -> Options:  # noqa: A002
    """Return the options completed with those of the spec that the format accepts; contradictions raise an error.

    ``format`` is the format of the data. Messages call the model ``named``.
    """
    from thinstream.data.formats import find_format

    learned = in_feature_space(spec.feature_space)
    if tuple(spec.classes) != (-1, 1) or spec.grow_classes:
        learned["classes"] = tuple(spec.classes)
    if spec.grow_classes:
        learned["grow_classes"] = True
    explicit = options.given()
    # zero_based may be "auto"; if the result differs, so will the feature spaces. Classes may be added later.
    free = ("zero_based", "classes") if spec.grow_classes else ("zero_based",)
    for name, value in learned.items():
        if name in explicit and name not in free and not _same(name, explicit[name], value):
            raise InvalidParameterError(
                f"{named} learned with {name} {_shown(value)}; it cannot be used with {name} {_shown(explicit[name])}"
            )
    defaults = {name: as_tuples(had) for name, had in spec.reading.items() if name not in (LAYOUT, KEYS)} | learned
    file_format = find_format(format)
    if file_format.has_cells or file_format.is_table:  # otherwise keys may be absent
        defaults.setdefault("columns", tuple(spec.reading.get(KEYS, ())))
    defaults.setdefault("missing", "as-is")  # for models without a value, such as the new models of `thinstream serve`
    defaults = {n: value for n, value in defaults.items() if n not in explicit and file_format.takes(n)}
    return replace(options, inferred=(), **defaults)  # nothing is left to infer


def feature_space(options: Options, *, hashed: bool) -> dict[str, Any]:
    """Return what feature indices mean: all that prediction must reproduce.

    >>> feature_space(Options(normalize="l2"), hashed=False)
    {'normalize': 'l2'}
    """
    space: dict[str, Any] = {}
    if hashed:
        from thinstream.data.text.hashing import Hashing

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
    """Return the options that give a feature space, without those at their defaults.

    >>> in_feature_space({"hashing": {"bits": 18, "signed": False}, "text": ["subject"]})
    {'text': ('subject',), 'bits': 18}
    """
    entries = {**space, **space.get("hashing", {})}
    values = {n: entries[n] for n, option in OPTIONS.items() if n in entries and spelling(option).in_space}
    values = {name: as_tuples(value) for name, value in values.items()}
    return {name: value for name, value in values.items() if value != OPTIONS[name].default}


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def as_tuples(value: Any) -> Any:
    """Return nested lists (from JSON) as tuples, and anything else unchanged."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def _same(name: str, value: Any, learned: Any) -> bool:
    """Return whether two values of an option are equal: labels by their text, columns in any order."""
    if name == "classes":
        return [*map(str, value)] == [*map(str, learned)]
    return sorted(value) == sorted(learned) if isinstance(value, tuple) else bool(value == learned)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return (" and " if value and isinstance(value[0], tuple) else ",").join(map(_shown, value))
    return str(value)


# A limit on the features of rows in memory: n-grams and crosses can make very many from a short text.

_most: ContextVar[int | None] = ContextVar("most", default=None)


class AtMost:
    """Limits the features of texts that are parsed within the block, before equal features are summed.

    >>> with AtMost(10):
    ...     require_few(12, "crosses")
    Traceback (most recent call last):
    thinstream.errors.InvalidInputError: rows may have at most 10 features in total, and with their crosses these
    would have about 12. Send fewer or shorter rows at a time.
    """

    def __init__(self, features: int) -> None:
        self._features = features

    def __enter__(self) -> None:
        self._token: Token[int | None] = _most.set(self._features)

    def __exit__(self, *error: object) -> None:
        _most.reset(self._token)


def require_few(features: int, source: str) -> None:
    """Raise if there is a limit and rows would have more features; ``source`` is where the features come from."""
    most = _most.get()
    if most is not None and features > most:
        raise InvalidInputError(
            f"rows may have at most {most:,} features in total, and with their {source} these would have about "
            f"{features:,}. Send fewer or shorter rows at a time."
        )
