"""What the short requests say, in JSON, MessagePack or lines of text."""

from typing import Any, NamedTuple

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.serve.reading import RowReader
from thinstream.serve.settings import Limits
from thinstream.serve.wire import Raw, Struct, json_as, msgpack_as

JSON, MSGPACK, TEXT = "application/json", ("application/msgpack", "application/x-msgpack"), "text/plain"


class Body(Struct, forbid_unknown_fields=True):
    """A request in JSON; rows are not looked into yet."""

    x: Raw = Raw(b"")
    y: Any = None
    weight: Any = None
    id: Any = None
    model: str | None = None
    request: str | None = None


class Packed(Struct, forbid_unknown_fields=True):
    """A request in MessagePack."""

    x: Any = None
    y: Any = None
    weight: Any = None
    id: Any = None
    model: str | None = None
    request: str | None = None


_body, _packed = json_as(Body), msgpack_as(Packed)


class Said(NamedTuple):
    """A request, its rows still to be read."""

    body: Any
    kind: str
    raw: bytes  # all of it, as it was sent

    @property
    def model(self) -> str | None:
        """The name of the model meant, if it is said in the body."""
        return None if self.kind == TEXT else self.body.model

    def rows(self, reader: RowReader, labelled: bool) -> "Rows":
        """The rows, with labels (as they were given), weights and ids."""
        if self.kind == TEXT:
            batch, labels = reader.lines(self.body, labelled)
            return Rows(batch, labels, None, len(batch) == 1)
        body = self.body
        if self.kind == JSON:
            if not memoryview(body.x):
                raise InvalidInputError("x is missing: a row, or a list of rows")
            batch, one = reader.raw(body.x)
        else:
            batch, one = reader.some(body.x)
        n = len(batch)
        labels = listed_for(body.y, n, one, "y") if labelled else None
        weights = None if body.weight is None else weights_of(listed_for(body.weight, n, one, "weight"))
        return Rows(batch, labels, weights, one)


class Rows(NamedTuple):
    """Rows of a request."""

    batch: Batch
    labels: list[Any] | None
    weights: list[float] | None
    one: bool  # whether it is one row, not a list


def read_body(raw: bytes, content_type: str) -> Said:
    """The body of a request."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in MSGPACK:
        return Said(_packed(raw), MSGPACK[0], raw)
    if kind in ("", JSON, "application/x-www-form-urlencoded") and raw.lstrip()[:1] == b"{":  # what curl says
        return Said(_body(raw), JSON, raw)
    if kind.startswith("text/") or kind == "application/x-www-form-urlencoded":
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"the text must be UTF-8, byte {error.start} is not") from None
        return Said(raw, TEXT, raw)
    raise InvalidInputError(
        f"the body must be a JSON object ({JSON}), MessagePack ({MSGPACK[0]}) or lines of text ({TEXT}), "
        f"got {kind or 'no Content-Type'!r:.60} and {raw[:20]!r}"
    )


def listed_for(given: Any, rows: int, one: bool, name: str) -> list[Any]:
    """One value for one row, a list for many."""
    found = [given] if one and not isinstance(given, list) else given
    if not isinstance(found, list) or len(found) != rows or any(each is None for each in found):
        got = f"{len(found)} values" if isinstance(given, list) else repr(given)[:40]
        raise InvalidInputError(f"{name}: one for each of {rows} rows is needed, got {got}")
    return found


def weights_of(given: list[Any]) -> list[float]:
    """Weights of rows: finite numbers ≥ 0."""
    for k, each in enumerate(given):
        if isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each < 1e30:
            raise InvalidInputError(f"weight must be a finite number ≥ 0, got {each!r:.40} at row {k}")
    return [float(each) for each in given]


def ids_of(given: Any, rows: int, one: bool, limits: Limits) -> list[int | str]:
    """Ids of rows: whole numbers or texts."""
    found = listed_for(given, rows, one, "id")
    for k, each in enumerate(found):
        if isinstance(each, bool) or not isinstance(each, int | str):
            raise InvalidInputError(f"id must be a whole number or a text, got {each!r:.40} at row {k}")
        if isinstance(each, str) and not 1 <= len(each) <= limits.id:
            raise InvalidInputError(f"id may have 1 to {limits.id} letters, got {len(each)} at row {k}")
        if isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise InvalidInputError(f"id must fit into 64 bits, got {each!r:.40} at row {k}")
    return found
