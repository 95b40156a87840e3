"""What a server may be told, and what it allows."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Limits on requests and connections; see "Limits" in docs/serving.md for what a client gets."""

    body: int = 16 << 20  # bytes
    rows: int = 10_000
    features: int = 1_000_000  # non-zeros of a row
    request_features: int = 4_000_000  # features of all rows of a request, before equal ones are summed
    model_bytes: int = 1 << 30  # memory that a model may need for the highest feature number of a request
    width: int = 1 << 24  # the highest number of a feature, if the model has not met a higher one
    id: int = 256  # letters of an id
    classes: int = 1000  # of a model whose classes come later
    head: int = 1 << 16  # bytes of the request line and headers
    headers: int = 100
    head_seconds: float = 10.0  # until the head of a request is complete
    body_seconds: float = 30.0  # until a body must come at the rate that follows, in bytes per second
    body_rate: int = 10_000
    receive_seconds: float = 30.0  # that a client may read nothing of a reply
    per_address: int | None = None  # connections of one client address to a process; None: half of all
    questions: int = 400  # requests of a process that may wait for the learning process
    answer_seconds: float = 10.0  # that a request waits for the learning process


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
    keep_bytes: int = 1 << 30  # of all rows together that wait for their labels
    classes: int = 1000  # of a model whose classes come later
    recover: bool = False  # whether to continue with a journal and a checkpoint of different moments
