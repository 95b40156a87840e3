"""A server that predicts and learns at the same time, without losing rows: ``thinstream serve``, or an ASGI app."""

from typing import Any, NamedTuple

from thinstream.errors import MissingPackageError, install, no_attribute

__all__ = ["Limits", "Settings", "create_app"]


def __getattr__(name: str) -> Any:
    """Import `create_app` on first use, because it needs optional packages."""
    if name != "create_app":
        raise no_attribute(__name__, name, __all__)
    require_packages()
    from thinstream.serve.predictor import create_app

    return create_app


def require_packages() -> None:
    """Raise, with the command that installs it, if a package that the server needs is missing."""
    import os
    from importlib.util import find_spec

    if os.name != "posix":
        raise MissingPackageError(
            "the server needs Unix sockets, which this system does not have. Run it on Linux or macOS"
        )
    for package in ("starlette", "uvicorn", "httptools", "msgspec", "prometheus_client"):
        if find_spec(package) is None:
            raise MissingPackageError(f"the server needs {package}: {install('serve')}")


class Limits(NamedTuple):
    """Limits on requests and connections; see "Limits" in docs/serving.md for what a client gets."""

    body: int = 16 << 20  # bytes
    rows: int = 10_000
    features: int = 1_000_000  # non-zeros per row
    request_features: int = 4_000_000  # features of all rows of a request together, before duplicates are summed
    model_bytes: int = 1 << 30  # memory that a model may need for the highest feature index of a request
    width: int = 1 << 24  # the highest feature index, unless the model has already learned a higher one
    id: int = 256  # characters of an id
    classes: int = 1000  # classes of a model with new classes (grow_classes)
    head: int = 1 << 16  # bytes of the request line and headers
    headers: int = 100
    head_seconds: float = 10.0  # time for the head of a request
    body_seconds: float = 30.0  # after this time a body must arrive at body_rate
    body_rate: int = 10_000  # bytes per second
    receive_seconds: float = 30.0  # time in which a client must read some of a reply
    per_address: int | None = None  # connections per client address and process; None: half of all
    questions: int = 400  # requests of a process that may wait for the learner
    answer_seconds: float = 10.0  # time that a request waits for the learner
    require_columns: bool = False  # whether rows must have exactly the columns that the model has learned from


class Settings(NamedTuple):
    """How the learner stores and learns rows."""

    keep: int = 1_000_000  # rows that may wait for their labels
    wait_seconds: float | None = None  # how long rows wait for their labels; None: without limit
    queue: int = 10_000  # requests that may wait to be written to the journal
    lag: int = 1_000_000  # requests in the journal that may wait to be learned
    checkpoint_seconds: float = 60.0
    archive: bool = False  # whether rows that are removed from the journal are archived
    #: By model: the address of the source that feeds it, and what to do at a gap ("stop" or "continue").
    sources: dict[str, tuple[str, str]] = {}  # noqa: RUF012 (never changed)
    version_rows: int | None = None  # rows learned between two saved versions
    version_seconds: float | None = 600.0
    versions: int = 10  # saved versions
    keep_bytes: int = 1 << 30  # size of all rows that wait for their labels
    classes: int = 1000  # classes of a model with new classes (grow_classes)
    recover: bool = False  # whether to continue with a journal and a checkpoint that do not match
    #: By model: the file of a retrained model, what to do ("challenge" or "replace"), and the digest of the file.
    retrained: dict[str, tuple[str, str, str]] = {}  # noqa: RUF012 (never changed)
    log_format: str = "text"
