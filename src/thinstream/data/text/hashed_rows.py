"""The common parts of formats with hashed features: settings, tokenized text, and rows made from a parser's output."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Spelled
from thinstream.data.cells import (
    ALL,
    BAD_CATEGORY,
    BAD_DATE,
    BAD_LABEL,
    BAD_NUMBER,
    BAD_TEXT,
    BAD_WEIGHT,
    CODES,
    CONSTANTS,
    CONSTANTS_TEXT,
    CROSSED,
    FILL,
    HEADS,
    INFINITE,
    LIMIT,
    NAMED,
    NEW,
    NO_NAMES,
    NO_VALUE,
    ROLES,
    ROWS,
    STATE,
    TEXTS,
    Features,
    Meaning,
    Out,
    heads_of,
)
from thinstream.data.crosses import MOST, Crosses, Members, cross_rows
from thinstream.data.options import MARK, MISSING, OPTIONS, Cross, Options, Range, as_range, names_of
from thinstream.data.text.characters import WIDE
from thinstream.data.text.hashing import Hashing
from thinstream.data.text.protocol import LineFormat, Named, NameTable, Parsed, ParseError, Text
from thinstream.data.text.sorting import tidy_named_rows
from thinstream.data.text.tokens import Runs, Spliced, Wording, run_features
from thinstream.engine.protocol import LARGEST
from thinstream.errors import InvalidInputError, InvalidParameterError, listed

BYTE_ORDER = b"\xef\xbb\xbf"  # some editors write it at the start of a file
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # the byte order marks of UTF-16
#: Bytes parsed at a time if features are crossed or n-grams are made.
PIECE = 1 << 20
Class = str | float | bool

#: Advice on labels that are strings, for messages.
TEXT_LABELS = "for other labels, pass --classes or --grow-classes"


class NamedFeatures(NamedTuple):
    """The features whose names are needed, in order."""

    positions: NDArray[np.int64]  # among the features of all rows
    names: Spelled
    slots: NDArray[np.uint64]  # the names in crosses that they match, as bits
    turned: NDArray[np.bool_]  # whether their signs are turned


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
    def of(cls, out: Out, features: Features, rows: int, weighted: bool) -> Self:
        """Return the rows that a parser has filled in."""
        nnz = int(out.indptr[rows])
        return cls(
            out.labels[:rows],
            out.weights[:rows] if weighted else None,
            out.indptr[: rows + 1],
            features.indices[:nnz],
            features.values[:nnz],
            out.starts[:rows],
            out.ends[:rows],
        )


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
    def named(self) -> int:
        """The features whose names are needed, see `thinstream.data.cells`."""
        if self.hashing.spells:  # they travel with rows
            return ALL
        return NEW if self.wanted is not None else CROSSED if self.cross else NO_NAMES

    def begin(self, features: int, texts: int = 0, columns: int = 5) -> tuple[Meaning, Features]:
        """Allocate N features and texts, and names of this many columns."""
        named, seen = self.named, None
        if named == NEW and self.names is not None:
            seen = self.names.seen(self.hashing.mask + 1)
            named = ALL if seen is None else NEW
        room = Features(
            np.empty(features + 1, self.hashing.kind),
            np.empty(features + 1),
            np.empty((0 if named == NO_NAMES else features + 1, columns), np.int32),
            np.empty(0, np.uint8) if seen is None else seen,
            np.empty((texts, 4), np.int64),
        )
        return Meaning.of(self.hashing, LARGEST[self.dtype], named), room

    def parsed(
        self,
        text: Text,
        raw: Raw,
        error: tuple[ParseError, int] | None,
        named: NamedFeatures | None = None,
        tags: list[str] | None = None,
        met: list[Any] | None = None,
    ) -> Parsed:
        """Return the rows, crossed and cleaned; ``error`` comes with the end of its record."""
        taken, dtype, wanted = len(text), self.dtype, self.wanted if named is not None else None
        parts = np.empty((0, 1), np.int64) if named is None else np.arange(len(named.positions)).reshape(-1, 1)
        travel = named.names if named is not None and self.hashing.spells and not self.crosses else None
        if self.crosses:
            assert named is not None
            raw, error, named, parts = self._crossed(raw, error, named, wanted is not None)
        before, candidates = raw.indptr[:0], raw.indices[:0]
        if wanted is not None and named is not None:
            before, candidates = raw.indptr.copy(), raw.indices[named.positions]
        # copied if a small view would keep a large array in memory
        own = raw.indices if raw.indices.base is None else raw.indices.copy()
        tidy = tidy_named_rows(raw.indptr, own, raw.values, dtype, self.binary, travel)
        rows = tidy.rows
        if rows < len(raw.labels):
            message = f"|value| must be at most {LARGEST[dtype]:g} after adding equal features of a row"
            message += f" (sums of squares would overflow in {dtype}), got more"
            error = ParseError(int(raw.starts[rows]), message), int(raw.ends[rows])
        if error is not None:
            taken = error[1]
        new = None
        if wanted is not None and named is not None:
            chosen = wanted.wanted(candidates[: np.searchsorted(named.positions, before[rows])])
            rows_of = np.searchsorted(before, named.positions[chosen], side="right") - 1
            new = Named(candidates[chosen].tolist(), _texts(named.names, parts[chosen]), rows_of.tolist())
        return Parsed(
            raw.labels[:rows],
            *tidy[1:6],
            int(np.count_nonzero(text[:taken] == 10)) + int(0 < taken <= len(text) and text[taken - 1] != 10),
            taken,
            None if raw.weights is None else raw.weights[:rows],
            None if tags is None else tags[:rows],
            None if error is None else error[0],
            new,
            met,
            raw.starts[:rows],
            "" if error is None else self.id_of(text[int(raw.ends[rows - 1]) if rows else 0 : taken]),
            tidy.names,
        )

    def id_of(self, record: Text) -> str:
        """Return the id of a bad record, if it is known."""
        return ""

    def _crossed(
        self, raw: Raw, error: tuple[ParseError, int] | None, named: NamedFeatures, collected: bool
    ) -> tuple[Raw, tuple[ParseError, int] | None, NamedFeatures, NDArray[np.int64]]:
        """Return the rows with their crosses, an error after them, named features, and the names that each consists of.

        Crosses are among the named features only if names are ``collected``.
        """
        chosen, members = np.flatnonzero(named.slots), named
        if len(chosen) < len(named.slots):
            parts_of = named.positions[chosen], named.names.at(chosen), named.slots[chosen], named.turned[chosen]
            members = NamedFeatures(*parts_of)
        values = raw.values[members.positions]
        if self.hashing.signed:
            values = np.where(members.turned, -values, values)
        begins = np.searchsorted(members.positions, raw.indptr)
        members_of_rows = Members(begins, members.slots, *members.names, values)
        crossed = cross_rows(self.crosses, (raw.indptr, raw.indices, raw.values), members_of_rows, collected)
        rows, parts = len(crossed.indptr) - 1, np.empty((0, 1), np.int64)
        if collected:
            made = np.flatnonzero(crossed.parts[:, 0] >= 0)
            plain = np.arange(np.searchsorted(named.positions, raw.indptr[rows]))
            rows_of = np.searchsorted(raw.indptr, named.positions[plain], side="right") - 1
            shifted = named.positions[plain] + (crossed.indptr - raw.indptr[: rows + 1])[rows_of]
            parts = np.full((len(plain) + len(made), self.crosses.widest), -1)
            parts[: len(plain), 0] = plain
            numbers = crossed.parts[made]
            parts[len(plain) :] = np.where(numbers >= 0, np.append(chosen, -1)[numbers], -1)
            positions = np.concatenate([shifted, made])
            order = np.argsort(positions, kind="stable")
            named, parts = named._replace(positions=positions[order]), parts[order]
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
        return raw, error, named, parts


def _texts(names: Spelled, parts: NDArray[np.int64]) -> list[str]:
    """Return the names of features; the name of a cross joins those of its parts."""
    used = parts >= 0
    texts = names.at(parts[used]).texts()
    if parts.shape[1] == 1:
        return texts
    rest = iter(texts)
    return [MARK.join(next(rest) for _ in range(count)) for count in np.sum(used, axis=1).tolist()]


def _spelled(names: NDArray[np.int32], text: NDArray[np.uint8], heads: NDArray[np.uint8], ends: Any) -> Spelled:
    """Return the names of features: heads, which are those of columns, and parts of the text, which follows them."""
    head, has_head, spans = names[:, 2], names[:, 2] % HEADS != 0, np.empty((len(names), 4), np.int32)
    spans[:, 0], spans[:, 3] = ends[head], ends[head + 1]
    spans[:, 1] = np.where(has_head, spans[:, 3], spans[:, 0])  # the name of a number has no head
    spans[:, 2] = np.where(has_head, names[:, 3] + len(heads), spans[:, 0])
    spans[has_head, 3] = names[has_head, 4] + len(heads)
    return Spelled(np.concatenate([heads, text[: names[:, 4].max(initial=0)]]), spans)


@dataclass(kw_only=True)
class ColumnFormat(HashedFormat):
    """A format with named columns; see `Options` for the parameters.

    Parameters
    ----------
    label : str or None
        Column of the label: a number (above 0 is positive) or one of ``classes``. A label may be missing (an empty
        cell). None: there are no labels.
    weight : str or None
        Column of the weight: a number ≥ 0, or 1 if empty.
    text, numeric, categorical, dates, ignore : names
        Columns declared as text, numbers, categories or dates, and columns to ignore.
    columns : names
        Columns that must exist. In JSON Lines and dicts, a record without one of them has a missing cell.
    classes : (negative, positive), more labels, or None
        The labels.
    grow_classes : bool
        Whether any label is allowed. `Parsed.met` has the distinct labels.
    missing : {"indicator", "ignore", "error", "as-is"}
        How to treat missing cells, see `Options`.
    inferred : names or None
        Names of the inferred options, for messages.
    ngrams, chars, lower, stop
        How text is tokenized, see `Wording`.
    id : str or None
        Column of the row ids. It may also have a role.

    """

    label: str | None = "label"
    weight: str | None = None
    text: Sequence[str] = ()
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    dates: Sequence[str] = ()
    ignore: Sequence[str] = ()
    columns: Sequence[str] = ()
    classes: tuple[Class, ...] | None = None
    grow_classes: bool = False
    missing: str = "as-is"
    inferred: Sequence[str] | None = None
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

    def begin_text(
        self, text: Text, more: int, features: int, texts: int
    ) -> tuple[NDArray[np.uint8], Meaning, Features, NDArray[np.int64]]:
        """Return a copy of the text with constants and free space, constants for cells, N features, and a state."""
        size, state = len(text), np.zeros(STATE, np.int64)
        meaning, room = self.begin(features, texts)
        whole = np.empty(size + len(CONSTANTS) + more + WIDE, np.uint8)
        whole[:size] = text
        whole[size : size + len(CONSTANTS)] = CONSTANTS_TEXT
        state[FILL] = size + len(CONSTANTS)
        return whole, meaning._replace(missing=CODES[self.missing], constants=size), room, state

    def finished(
        self,
        text: Text,
        whole: NDArray[np.uint8],
        meaning: Meaning,
        out: Out,
        features: Features,
        state: NDArray[np.int64],
        names: Sequence[str],
        error: tuple[ParseError, int] | None,
        tags: list[str] | None = None,
        met: list[Any] | None = None,
    ) -> Parsed:
        """Return the rows that a parser has filled in; ``names`` are those of the columns."""
        rows, count = int(state[ROWS]), int(state[TEXTS])
        raw, named = Raw.of(out, features, rows, self.weight is not None), None
        if meaning.named != NO_NAMES:
            filled = features.names[: state[NAMED]]
            heads, ends, columns = heads_of(tuple(names), frozenset(self.dates))
            slots = self.crosses.slots_of(columns)[filled[:, 2]]
            positions, turned = filled[:, 0].astype(np.int64), filled[:, 1] != 0
            named = NamedFeatures(positions, _spelled(filled, whole, heads, ends), slots, turned)
        if count:
            texts = [name for name in names if name in self.text]
            numbers = np.cumsum([name in self.text for name in names]) - 1
            positions, columns_of, begins, stops = np.ascontiguousarray(features.runs[:count].T)
            runs, slots = Runs(positions, numbers[columns_of], begins, stops), self.crosses.slots_of(texts)
            tokens = run_features(whole, runs, texts, self.wording, self.hashing, meaning, features.seen, slots != 0)
            spliced = Spliced(raw.indices, raw.values, positions, tokens)
            raw = raw._replace(
                indptr=spliced.indptr(raw.indptr, out.upto[: rows + 1]), indices=spliced.indices, values=spliced.values
            )
            if named is not None:
                order, positions = spliced.merged(named.positions, tokens)
                text_of = np.searchsorted(spliced.before, tokens.named, side="right") - 1
                slots = np.concatenate([named.slots, slots[runs.columns[text_of]]])[order]
                turned = np.concatenate([named.turned, tokens.values[tokens.named] < 0])[order]
                named = NamedFeatures(positions, Spelled.joined([named.names, tokens.names]).at(order), slots, turned)
        return self.parsed(text, raw, error, named, tags, met)

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
        inferred = "classes" in (self.inferred or ())
        return " (inferred; pass --classes to name all, or --grow-classes to allow any)" if inferred else ""

    @property
    def roles(self) -> dict[str, Any]:
        """The columns of each role."""
        return {role: getattr(self, role) for role in ROLES}

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
