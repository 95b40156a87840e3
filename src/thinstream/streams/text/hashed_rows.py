"""What formats with hashed features share: settings, features of texts, and rows made of what a parser leaves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.learners.learner import LARGEST
from thinstream.spelling import Spelled
from thinstream.streams.crossing.declared import MARK, Cross, names_of
from thinstream.streams.crossing.plan import Crosses
from thinstream.streams.crossing.rows import MOST, cross_rows
from thinstream.streams.crossing.spelling import Members
from thinstream.streams.options import MISSING, OPTIONS, Options
from thinstream.streams.text.hashing import Hashing
from thinstream.streams.text.names import Named, NameTable
from thinstream.streams.text.protocol import LineFormat, Parsed, ParseError, Text
from thinstream.streams.text.tidying import tidy_named_rows
from thinstream.streams.text.tokens import Feature
from thinstream.streams.text.wording import Range, Wording, as_range

BYTE_ORDER = b"\xef\xbb\xbf"  # some editors put it at the head of a file
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # how such texts begin
#: Bytes parsed at a time where features are crossed.
PIECE = 1 << 18
Class = str | float | bool

#: What labels that are texts need, in messages.
TEXTS = "texts are classes: --classes names them, --grow-classes takes any"


class Raw(NamedTuple):
    """Rows of features in the order of the text: not sorted, numbers may repeat."""

    labels: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[np.float64]
    starts: NDArray[np.int64]  # where each record begins in the text
    ends: NDArray[np.int64]  # and where the next may begin

    @classmethod
    def empty(cls, most: int, kind: Any = np.int32, rows: int | None = None) -> Self:
        """Room for so many features, whose numbers are of this type, and rows: as many, unless there can be but few."""
        kinds = (np.float64, np.float64, np.int64, kind, np.float64, np.int64, np.int64)
        per_row = most if rows is None else rows
        sizes = (per_row, per_row, per_row, most, most, per_row, per_row)
        return cls._make(np.empty(size + 1, kind) for size, kind in zip(sizes, kinds, strict=True))

    def first(self, rows: int, weighted: bool) -> "Raw":
        """The rows a parser has filled in."""
        nnz = int(self.indptr[rows])
        sizes = (rows, rows, rows + 1, nnz, nnz, rows, rows)
        found = Raw._make(array[:size] for array, size in zip(self, sizes, strict=True) if array is not None)
        return found if weighted else found._replace(weights=None)


@dataclass
class HashedFormat(LineFormat):
    """A format whose features are hashed by name.

    Parameters
    ----------
    hashing : Hashing
        How names become feature numbers; the namespace's hash is the seed of the name's.
    dtype : {"float32", "float64"}
        Of the values.
    names : NameTable or None
        Where readable names (``namespace^feature``) are to be kept.
    cross : crosses
        Of columns or namespaces, see `thinstream.streams.crossing`.
    binary : bool
        Whether a feature that a row has several times counts once: the first.

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
        """The format the reading options ask for: fields have the names of options."""
        given = {name: getattr(options, name) for name in cls.__dataclass_fields__ if name in OPTIONS}
        if given.get("grow_classes"):
            given["classes"] = None  # the stream knows them
        return cls(**{**given, "hashing": Hashing.of(options), "names": NameTable.of(options), **more})

    def refused(self, why: str) -> InvalidParameterError:
        """The error of a parameter."""
        return InvalidParameterError(f"{type(self).__name__}: {why}")

    @property
    def wanted(self) -> NameTable | None:
        """Where names are still to be kept, if anywhere."""
        return None if self.names is None or self.names.full else self.names

    @property
    def piece(self) -> int | None:
        """Bytes of text to be parsed at a time at most, where that is to be few: crosses may be far more than them."""
        return PIECE if self.cross else None

    @property
    def remarks(self) -> list[str]:
        """What is odd about what was found so far."""
        return self.crosses.remarks()

    def room_for_spans(self, most: int) -> NDArray[np.int64]:
        """For the places of names in the text, and whether a sign was turned; none where nobody asks for them."""
        nobody = self.wanted is None and not self.cross and not self.hashing.spells
        return np.empty((0 if nobody else most, 5), np.int64)

    def unsigned(self, values: NDArray[np.float64], spans: NDArray[np.int64]) -> NDArray[np.float64]:
        """Values without the signs their hashes gave them."""
        return np.where(spans[:, 4] != 0, -values, values) if self.hashing.signed else values

    def parsed(
        self,
        text: Text,
        raw: Raw,
        error: tuple[ParseError, int] | None,
        name_at: Callable[[int], str],
        tags: list[str] | None = None,
        met: list[Any] | None = None,
        members: Members | None = None,
        spelled: Spelled | None = None,
    ) -> Parsed:
        """The rows, crossed and made tidy; ``error`` comes with the end of its record.

        ``name_at`` names a feature of ``raw``, ``members`` are these features as crosses need them, ``spelled`` as
        they travel with rows: that crosses do not.
        """
        if members is not None:
            raw, error, name_at = self._crossed(raw, members, error, name_at)
            spelled = None
        taken, before, dtype, names = len(text), raw.indptr.copy(), self.dtype, self.wanted
        # a copy where names are to be found by what was there, or a large array would be held by its small beginning
        own = raw.indices if names is None and raw.indices.base is None else raw.indices.copy()
        tidy = tidy_named_rows(raw.indptr, own, raw.values, dtype, self.binary, spelled)
        rows = tidy.rows
        if rows < len(raw.labels):
            message = f"|values| of a row, equal features summed, must be at most {LARGEST[dtype]:g}"
            message += f" ({dtype}: sums of squares would overflow), got more"
            error = ParseError(int(raw.starts[rows]), message), int(raw.ends[rows])
        if error is not None:
            taken = error[1]
        named = None
        if names is not None:
            places = names.wanted(raw.indices[: before[rows]]).tolist()
            named = Named(raw.indices[places].tolist(), [name_at(place) for place in places])
        return Parsed(
            raw.labels[:rows],
            *tidy[1:6],
            int(np.count_nonzero(text[:taken] == 10)) + int(taken > 0 and text[taken - 1] != 10),
            taken,
            None if raw.weights is None else raw.weights[:rows],
            None if tags is None else tags[:rows],
            None if error is None else error[0],
            named,
            met,
            raw.starts[:rows],
            "" if error is None else self.called(text[int(raw.ends[rows - 1]) if rows else 0 : taken]),
            tidy.names,
        )

    def called(self, record: Text) -> str:
        """The id of a bad record, as far as it can be told."""
        return ""

    def _crossed(
        self, raw: Raw, members: Members, error: tuple[ParseError, int] | None, name_at: Callable[[int], str]
    ) -> tuple[Raw, tuple[ParseError, int] | None, Callable[[int], str]]:
        plain, traced = (raw.indptr, raw.indices, raw.values), self.wanted is not None
        found = cross_rows(self.crosses, plain, members, traced)
        rows = len(found.indptr) - 1
        if rows < len(raw.labels):
            message = f"a row may have {MOST:,} crosses, got more; cross columns with fewer features"
            error = ParseError(int(raw.starts[rows]), message), int(raw.ends[rows])
        raw = Raw(
            raw.labels[:rows],
            None if raw.weights is None else raw.weights[:rows],
            found.indptr,
            found.indices,
            found.values,
            raw.starts[:rows],
            raw.ends[:rows],
        )

        def crossed_name_at(place: int) -> str:
            return MARK.join(name_at(part) for part in found.parts[place].tolist() if part >= 0)

        return raw, error, crossed_name_at


@dataclass(kw_only=True)
class ColumnFormat(HashedFormat):
    """A format of named columns; see `Options` for what they are.

    Parameters
    ----------
    label : str or None
        Of a number (above 0 is positive) or one of ``classes``; rows where it is empty have no label. None: no labels.
    weight : str or None
        Of a number ≥ 0; 1 where it is empty.
    text, ignore : names
        Those to be taken apart into words, and to be left out.
    classes : (negative, positive), more labels, or None
        The labels.
    grow_classes : bool
        Whether any label is taken; `Parsed.met` has those found.
    missing : {"indicator", "ignore", "error", "as-is"}
        What a cell is that says nothing: see `Options`.
    found : names or None
        Which of these were found by looking; messages tell.
    ngrams, chars, lower, stop
        How texts are taken apart: see `Wording`.
    id : str or None
        Of what a row is called; it keeps its role beside that.

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
        """These files may begin with a byte order mark."""
        if bytes(text[:2]) in _UTF_16:
            raise InvalidInputError("text must be UTF-8, got UTF-16: iconv -f UTF-16 -t UTF-8 FILE makes it so")
        return len(BYTE_ORDER) if bytes(text[:3]) == BYTE_ORDER else 0

    @property
    def piece(self) -> int | None:
        """Bytes of text to be parsed at a time at most: few also where n-grams are more than these."""
        return PIECE if self.chars or self.ngrams else super().piece

    def text_features(self, column: str, text: str) -> list[Feature]:
        """What a text in a column has."""
        return [(column + end, name, 1.0) for end, name in self.wording.features(text)]

    @property
    def how_classes_are_known(self) -> str:
        """What messages say of labels that are none of the classes."""
        found = "classes" in (self.found or ())
        return " (found by looking; --classes names all, --grow-classes takes any)" if found else ""

    @property
    def roles(self) -> dict[str, Any]:
        """Which columns are what."""
        return {role: getattr(self, role) for role in self.ROLES}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.missing not in MISSING:
            raise self.refused(f"missing must be {listed(MISSING)}, got {self.missing!r}")
        self.wording = Wording(as_range("ngrams", self.ngrams), as_range("chars", self.chars), self.lower, self.stop)
        taken: dict[str, str] = {}
        for role, given in self.roles.items():
            one = role in ("label", "weight")
            columns = ([] if given is None else [given]) if one else given
            if not isinstance(columns, Sequence) or isinstance(columns, str):
                raise self.refused(f"{role} must be a list of names of columns, got {given!r}")
            for name in columns:
                if not isinstance(name, str):
                    raise self.refused(f"{role} must name columns in text, got {name!r}")
                if taken.setdefault(name, role) != role:
                    raise self.refused(f"a column has one role, {name!r} has {taken[name]} and {role}")
        for name in names_of(self.cross):
            if taken.get(name) in ("label", "weight", "ignore"):
                raise self.refused(f"cross: {name!r} is given as {taken[name]}, so it has no features to be crossed")
        kinds = self.classes
        fine = isinstance(kinds, tuple | list) and all(isinstance(kind, str | float | int) for kind in kinds)
        if kinds is not None and (not fine or len(kinds) < 2 or len(set(kinds)) < len(kinds)):
            raise self.refused(
                f"classes must be two different labels (negative, positive) or more, text or numbers, got {kinds!r}"
            )
