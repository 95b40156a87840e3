"""The common parts of formats with hashed features: settings, tokenized text, and rows made from a parser's output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Spelled
from thinstream.data.cells import (
    BAD_CATEGORY,
    BAD_DATE,
    BAD_LABEL,
    BAD_NUMBER,
    BAD_TEXT,
    BAD_WEIGHT,
    CONSTANTS,
    CONSTANTS_TEXT,
    FILL,
    HEADS,
    INFINITE,
    LIMIT,
    NNZ,
    NO_VALUE,
    PARTS,
    ROWS,
    STATE,
    TEXTS,
    Features,
    Meaning,
    Out,
)
from thinstream.data.crosses import MOST, Crosses, Members, cross_rows
from thinstream.data.options import MARK, MISSING, OPTIONS, Cross, Options, Range, as_range, names_of
from thinstream.data.text.characters import WIDE
from thinstream.data.text.hashing import Hashing, encode_names
from thinstream.data.text.protocol import LineFormat, Named, NameTable, Parsed, ParseError, Text
from thinstream.data.text.sorting import tidy_named_rows
from thinstream.data.text.tokens import Runs, Spliced, Wording, run_features
from thinstream.engine.protocol import LARGEST
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.jit import compiled

BYTE_ORDER = b"\xef\xbb\xbf"  # some editors write it at the start of a file
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # the byte order marks of UTF-16
#: Bytes parsed at a time if features are crossed or n-grams are made.
PIECE = 1 << 18
Class = str | float | bool

#: Advice on labels that are strings, for messages.
TEXT_LABELS = "for other labels, pass --classes or --grow-classes"


#: Returns the names of the features at some positions, or of all features.
NamesAt = Callable[[Any], Spelled]
ALL = slice(None)


class Raw(NamedTuple):
    """Rows of features in the order of the text: not sorted, and indices may repeat."""

    labels: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[np.float64]
    starts: NDArray[np.int64]  # offset of each record in the text
    ends: NDArray[np.int64]  # offset at which the next record may start

    @classmethod
    def empty(cls, most: int, index_dtype: Any = np.int32, rows: int | None = None) -> Self:
        """Allocate N features with indices of this dtype, and rows: as many, unless a number is given."""
        dtypes = (np.float64, np.float64, np.int64, index_dtype, np.float64, np.int64, np.int64)
        per_row = most if rows is None else rows
        sizes = (per_row, per_row, per_row, most, most, per_row, per_row)
        return cls._make(np.empty(size + 1, dtype) for size, dtype in zip(sizes, dtypes, strict=True))

    def first(self, rows: int, weighted: bool) -> "Raw":
        """Return the rows that a parser has filled in."""
        nnz = int(self.indptr[rows])
        sizes = (rows, rows, rows + 1, nnz, nnz, rows, rows)
        filled = Raw._make(array[:size] for array, size in zip(self, sizes, strict=True) if array is not None)
        return filled if weighted else filled._replace(weights=None)


@dataclass
class HashedFormat(LineFormat):
    """A format whose features are hashed by name.

    Parameters
    ----------
    hashing : Hashing
        How names become feature numbers; the namespace's hash is the seed of the name's.
    dtype : {"float32", "float64"}
        The dtype of the values.
    names : NameTable or None
        Stores readable names (``namespace^feature``).
    cross : crosses
        Crosses of columns or namespaces, see `thinstream.data.crosses`.
    binary : bool
        Whether only the first of equal features in a row counts.

    """

    hashing: Hashing = field(default_factory=Hashing)
    dtype: str = "float32"
    names: NameTable | None = None
    cross: Sequence[Cross] = ()
    binary: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in LARGEST:
            raise self.refused(f"dtype must be {listed(LARGEST)}, got {self.dtype!r}")
        if not isinstance(self.hashing, Hashing):
            raise self.refused(f"hashing must be a Hashing, got {self.hashing!r}")
        if self.names is not None and not isinstance(self.names, NameTable):
            raise self.refused(f"names must be a NameTable or None, got {self.names!r}")
        self.crosses = Crosses(self.cross, self.hashing)

    @classmethod
    def of(cls, options: Options, **more: Any) -> Self:
        """Create the format from reading options, which have the names of its fields."""
        fields = {name: getattr(options, name) for name in cls.__dataclass_fields__ if name in OPTIONS}
        if fields.get("grow_classes"):
            fields["classes"] = None  # the stream has them
        return cls(**{**fields, "hashing": Hashing.of(options), "names": NameTable.of(options), **more})

    def refused(self, problem: str) -> InvalidParameterError:
        return InvalidParameterError(f"{type(self).__name__}: {problem}")

    @property
    def wanted(self) -> NameTable | None:
        """The table that still collects names, or None."""
        return None if self.names is None or self.names.full else self.names

    @property
    def piece(self) -> int | None:
        """The most bytes to parse at a time, if that must be few: crosses may need much more memory than text."""
        return PIECE if self.cross else None

    @property
    def remarks(self) -> list[str]:
        """Remarks on the data read so far."""
        return self.crosses.remarks()

    @property
    def needs_names(self) -> bool:
        """Whether names of features are needed: for a table of names, for crosses, or because they travel with rows."""
        return self.wanted is not None or bool(self.cross) or self.hashing.spells

    def parsed(
        self,
        text: Text,
        raw: Raw,
        error: tuple[ParseError, int] | None,
        names: NamesAt | None = None,
        slots: NDArray[np.uint64] | None = None,
        unsigned: NDArray[np.float64] | None = None,
        tags: list[str] | None = None,
        met: list[Any] | None = None,
    ) -> Parsed:
        """Return the rows, crossed and cleaned; ``error`` comes with the end of its record.

        ``names`` returns the names of features. Crosses also need ``slots`` and ``unsigned`` values.
        """
        parts = None
        if self.crosses:
            assert names is not None
            assert slots is not None
            assert unsigned is not None
            spelled = names(ALL)
            names = spelled.at
            raw, error, parts = self._crossed(raw, Members(raw.indptr, slots, *spelled, unsigned), error)
        taken, before, dtype, wanted = len(text), raw.indptr.copy(), self.dtype, self.wanted
        # copied if names need the original indices, or if a small view would keep a large array in memory
        own = raw.indices if wanted is None and raw.indices.base is None else raw.indices.copy()
        travel = names(ALL) if names is not None and self.hashing.spells and not self.crosses else None
        tidy = tidy_named_rows(raw.indptr, own, raw.values, dtype, self.binary, travel)
        rows = tidy.rows
        if rows < len(raw.labels):
            message = f"|value| must be at most {LARGEST[dtype]:g} after adding equal features of a row"
            message += f" (sums of squares would overflow in {dtype}), got more"
            error = ParseError(int(raw.starts[rows]), message), int(raw.ends[rows])
        if error is not None:
            taken = error[1]
        named = None
        if wanted is not None and names is not None:
            positions = wanted.wanted(raw.indices[: before[rows]])
            rows_of = (np.searchsorted(before, positions, side="right") - 1).tolist()
            named = Named(raw.indices[positions].tolist(), _readable(names, positions, parts), rows_of)
        return Parsed(
            raw.labels[:rows],
            *tidy[1:6],
            int(np.count_nonzero(text[:taken] == 10)) + int(0 < taken <= len(text) and text[taken - 1] != 10),
            taken,
            None if raw.weights is None else raw.weights[:rows],
            None if tags is None else tags[:rows],
            None if error is None else error[0],
            named,
            met,
            raw.starts[:rows],
            "" if error is None else self.id_of(text[int(raw.ends[rows - 1]) if rows else 0 : taken]),
            tidy.names,
        )

    def id_of(self, record: Text) -> str:
        """Return the id of a bad record, if it is known."""
        return ""

    def _crossed(
        self, raw: Raw, members: Members, error: tuple[ParseError, int] | None
    ) -> tuple[Raw, tuple[ParseError, int] | None, NDArray[np.int64]]:
        """Return the rows with their crosses, an error after them, and the parts of features if names are collected."""
        plain = raw.indptr, raw.indices, raw.values
        crossed = cross_rows(self.crosses, plain, members, self.wanted is not None)
        rows = len(crossed.indptr) - 1
        if rows < len(raw.labels):
            message = f"a row may have at most {MOST:,} crosses, got more; cross columns with fewer features"
            error = ParseError(int(raw.starts[rows]), message), int(raw.ends[rows])
        raw = Raw(
            raw.labels[:rows],
            None if raw.weights is None else raw.weights[:rows],
            crossed.indptr,
            crossed.indices,
            crossed.values,
            raw.starts[:rows],
            raw.ends[:rows],
        )
        return raw, error, crossed.parts


def _readable(names: NamesAt, positions: NDArray[np.int64], parts: NDArray[np.int64] | None) -> list[str]:
    """Return the names of features; the name of a cross joins those of its parts."""
    if parts is None:
        return names(positions).texts()
    chosen = parts[positions]
    texts = iter(names(chosen[chosen >= 0]).texts())
    return [MARK.join(next(texts) for _ in range(count)) for count in np.sum(chosen >= 0, axis=1).tolist()]


@lru_cache(64)
def _heads_of(names: tuple[str, ...], dates: frozenset[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Return the heads of names that columns may have, their ends, and the column that crosses use for each."""
    heads, columns = list[str](), list[str]()
    for name in names:
        parts = [f"{name}.{part}" for part in PARTS] if name in dates else [""] * len(PARTS)
        heads += [name, f"{name}=", *(f"{part}=" if part else "" for part in parts)]
        columns += [name, name, *parts]
    text, ends = encode_names(heads)
    return np.frombuffer(bytearray(text), np.uint8), np.concatenate([[0], ends]).astype(np.int64), columns


@compiled("thinstream.data.cells")
def _spell(spans: Any, ends: Any, behind: Any, out: Any) -> None:
    """Fill in the spans of names; their heads come after the text."""
    for k in range(len(spans)):
        head = spans[k, 0]
        low, high = behind + ends[head], behind + ends[head + 1]
        if head % HEADS == 0:
            out[k, 0], out[k, 1], out[k, 2], out[k, 3] = low, low, low, high
        else:
            out[k, 0], out[k, 1], out[k, 2], out[k, 3] = low, high, spans[k, 1], spans[k, 2]


def _spelled(
    spans: NDArray[np.int32],
    whole: NDArray[np.uint8],
    heads: NDArray[np.uint8],
    ends: NDArray[np.int64],
    positions: Any,
) -> Spelled:
    """Return the names of the features at some positions; their heads are those of columns."""
    chosen = np.ascontiguousarray(spans[positions])
    names = Spelled(np.concatenate([whole, heads]), np.empty((len(chosen), 4), np.int32))
    _spell(chosen, ends, len(whole), names.spans)
    return names


@dataclass(kw_only=True)
class ColumnFormat(HashedFormat):
    """A format with named columns; see `Options` for the parameters.

    Parameters
    ----------
    label : str or None
        Column of the label: a number (above 0 is positive) or one of ``classes``. An empty cell is no label. None:
        there are no labels.
    weight : str or None
        Column of the weight: a number ≥ 0, or 1 if empty.
    text, ignore : names
        Text columns, and columns to ignore.
    classes : (negative, positive), more labels, or None
        The labels.
    grow_classes : bool
        Whether any label is allowed. `Parsed.met` has the distinct labels.
    missing : {"indicator", "ignore", "error", "as-is"}
        How to treat missing cells, see `Options`.
    found : names or None
        Names of the inferred options, for messages.
    ngrams, chars, lower, stop
        How text is tokenized, see `Wording`.
    id : str or None
        Column of the row ids. It may also have a role.

    """

    ROLES: ClassVar[tuple[str, ...]] = ("label", "weight", "text", "ignore")
    label: str | None = "label"
    weight: str | None = None
    text: Sequence[str] = ()
    ignore: Sequence[str] = ()
    classes: tuple[Class, ...] | None = None
    grow_classes: bool = False
    missing: str = "as-is"
    found: Sequence[str] | None = None
    ngrams: Range | None = None
    chars: Range | None = None
    lower: bool = True
    stop: tuple[str, ...] = ()
    id: str | None = None

    def header(self, text: Text) -> int:
        if bytes(text[:2]) in _UTF_16:
            raise InvalidInputError("text must be UTF-8, got UTF-16. Convert it with iconv -f UTF-16 -t UTF-8 FILE.")
        return len(BYTE_ORDER) if bytes(text[:3]) == BYTE_ORDER else 0

    @property
    def piece(self) -> int | None:
        """The most bytes to parse at a time, if that must be few: n-grams may need much more memory than text."""
        return PIECE if self.chars or self.ngrams else super().piece

    def begin_text(self, text: Text, more: int) -> tuple[NDArray[np.uint8], Meaning, NDArray[np.int64]]:
        """Return a copy of the text with constants and free space, constants for cells, and a parser's state."""
        size, state = len(text), np.zeros(STATE, np.int64)
        whole = np.empty(size + len(CONSTANTS) + more + WIDE, np.uint8)
        whole[:size] = text
        whole[size : size + len(CONSTANTS)] = CONSTANTS_TEXT
        state[FILL] = size + len(CONSTANTS)
        return whole, Meaning.of(self.hashing, LARGEST[self.dtype], self.missing, size), state

    def finished(
        self,
        text: Text,
        whole: NDArray[np.uint8],
        out: Out,
        features: Features,
        state: NDArray[np.int64],
        names: Sequence[str],
        error: tuple[ParseError, int] | None,
        tags: list[str] | None = None,
        met: list[Any] | None = None,
    ) -> Parsed:
        """Return the rows that a parser has filled in; ``names`` are those of the columns."""
        rows, nnz, count = (int(state[k]) for k in (ROWS, NNZ, TEXTS))
        raw = Raw(
            out.labels[:rows],
            None if self.weight is None else out.weights[:rows],
            out.indptr[: rows + 1],
            features.indices[:nnz],
            features.values[:nnz],
            out.starts[:rows],
            out.ends[:rows],
        )
        spell, slots, unsigned = None, None, None
        if len(features.spans):
            spans = features.spans[:nnz]
            heads, ends, columns = _heads_of(tuple(names), frozenset(self.roles.get("dates", ())))
            spell = partial(_spelled, spans, whole, heads, ends)
            if self.crosses:
                slots = self.crosses.slots_of(columns)[spans[:, 0]]
                unsigned = np.where(spans[:, 3] != 0, -raw.values, raw.values) if self.hashing.signed else raw.values
        if count:
            texts, numbers = [*self.text], np.zeros(len(names), np.int64)
            numbers[[k for k, name in enumerate(names) if name in texts]] = 1
            texts = [name for name in names if name in texts]
            numbers = np.cumsum(numbers) - 1
            positions, columns_of, begins, stops = np.ascontiguousarray(features.runs[:count].T)
            runs = Runs(positions, numbers[columns_of], begins, stops)
            tokens = run_features(whole, runs, texts, self.wording, self.hashing, spell is not None)
            spliced = Spliced(raw.indices, raw.values, runs, tokens)
            raw = raw._replace(
                indptr=spliced.indptr(raw.indptr, out.upto[: rows + 1]), indices=spliced.indices, values=spliced.values
            )
            if spell is not None and tokens.names is not None:
                spell = partial(spliced.names, spell, tokens.names)
            if slots is not None and unsigned is not None:
                slots = spliced.inserted(slots, self.crosses.slots_of(texts)[runs.columns])
                unsigned = spliced.inserted(unsigned, np.ones(count))
        return self.parsed(text, raw, error, spell, slots, unsigned, tags, met)

    def problem(self, verdict: int, name: str, value: str) -> str:
        """Describe what is wrong with a cell, what is allowed, and what was given."""
        largest = f"|value| must be at most {LARGEST[self.dtype]:g} (sums of squares would overflow in {self.dtype})"
        labels = f"a finite number ({TEXT_LABELS})" if self.classes is None else listed(self.classes)
        allowed = {
            BAD_LABEL: f"a label must be {labels}{self.how_classes_are_known}",
            BAD_WEIGHT: "a weight must be a finite number ≥ 0",
            BAD_NUMBER: f"column {name!r} is numeric (declared, or inferred), so a cell must be a finite number, "
            "empty or NA",
            BAD_DATE: f"column {name!r} holds dates, so a cell must be one as in 2024-05-17 or 2024-05-17T13:05, "
            "or empty (pass --categorical to allow words)",
            BAD_TEXT: f"column {name!r} is declared as text, so a cell must be a string",
            BAD_CATEGORY: f"column {name!r} is categorical, so a cell must be text or a number",
            NO_VALUE: f"column {name!r} must have a value in every record, because missing is 'error'",
            INFINITE: f"column {name!r}: numbers must be finite (pass --categorical to allow words)",
            LIMIT: f"column {name!r}: {largest}; or declare the column categorical or ignored",
        }[verdict]
        return f"{allowed}, got {value}"

    @property
    def how_classes_are_known(self) -> str:
        """An addition to messages on labels that are not classes."""
        inferred = "classes" in (self.found or ())
        return " (inferred; pass --classes to name all, or --grow-classes to allow any)" if inferred else ""

    @property
    def roles(self) -> dict[str, Any]:
        """The columns of each role."""
        return {role: getattr(self, role) for role in self.ROLES}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.missing not in MISSING:
            raise self.refused(f"missing must be {listed(MISSING)}, got {self.missing!r}")
        self.wording = Wording(as_range("ngrams", self.ngrams), as_range("chars", self.chars), self.lower, self.stop)
        taken: dict[str, str] = {}
        for role, value in self.roles.items():
            one = role in ("label", "weight")
            columns = ([] if value is None else [value]) if one else value
            if not isinstance(columns, Sequence) or isinstance(columns, str):
                raise self.refused(f"{role} must be a list of column names, got {value!r}")
            for name in columns:
                if not isinstance(name, str):
                    raise self.refused(f"{role} must have column names as strings, got {name!r}")
                if taken.setdefault(name, role) != role:
                    raise self.refused(f"a column can have only one role, but {name!r} has {taken[name]} and {role}")
        for name in names_of(self.cross):
            if taken.get(name) in ("label", "weight", "ignore"):
                raise self.refused(f"cross: {name!r} has the role {taken[name]}, so it has no features to cross")
        classes = self.classes
        fine = isinstance(classes, tuple | list) and all(isinstance(label, str | float | int) for label in classes)
        if classes is not None and (not fine or len(classes) < 2 or len(set(classes)) < len(classes)):
            raise self.refused(f"classes must be two or more different strings or numbers, got {classes!r}")
