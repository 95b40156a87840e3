"""What a server may be told, and what it allows."""

from typing import NamedTuple


class Limits(NamedTuple):
    """What one request may be: more is refused with 413 or 422."""

    body: int = 16 << 20  # bytes
    rows: int = 10_000
    features: int = 1_000_000  # non-zeros of a row
    width: int = 1 << 24  # the highest number of a feature, if the model has not met a higher one
    id: int = 256  # letters of an id
    classes: int = 1000  # of a model whose classes come later


class Settings(NamedTuple):
    """How the learning process keeps and learns what it is told."""

    keep: int = 1_000_000  # rows that may wait for their labels
    wait_seconds: float | None = None  # how long
    queue: int = 10_000  # requests that may wait to be written
    lag: int = 1_000_000  # requests that may be written and not yet learned
    checkpoint_seconds: float = 60.0
    archive: bool = False  # whether what is cut from the journal is kept
    #: The address of the source that feeds a model, and what to do at a gap ("stop" or "continue"), by model.
    sources: dict[str, tuple[str, str]] = {}  # noqa: RUF012 (never changed)
    version_rows: int | None = None  # learned between two versions that are kept
    version_seconds: float | None = 600.0
    versions: int = 10  # that are kept
