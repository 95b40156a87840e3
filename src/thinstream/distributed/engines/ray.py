"""Workers on Ray. The only module that imports ray."""

import atexit
import logging
import os
import queue
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from inspect import signature
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from xxhash import xxh3_64_intdigest

from thinstream._version import __version__
from thinstream.data.tables.arrow import pyarrow
from thinstream.distributed.engines.launcher import (
    LOOPBACK,
    RETRIES,
    environment,
    private_folder,
    report_loss,
    require_count,
    require_reachable,
    with_worker,
)
from thinstream.distributed.sources import TableColumns, TableShard, cut
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    MissingPackageError,
    WorkerLostError,
    install,
    listed,
)

_PATH, _PREFIX = "RAY_AUTH_TOKEN_PATH", "thinstream-ray-"


def ray() -> Any:
    """Import and return the package on first use."""
    try:
        import ray
    except ImportError as error:
        raise MissingPackageError(f"engine='ray' needs Ray: {install('ray')}") from error
    return ray


def connect(
    address: str | None, cpus: int, options: dict[str, Any], timeout: float = 60.0
) -> Callable[[], None] | None:
    """Join a cluster, or start one here; return a function that leaves it, or None if it was already connected.

    Without ``address``, the variable RAY_ADDRESS specifies the cluster. A cluster that is started here has no
    dashboard, listens on the loopback interface only, and needs a token.
    """
    for name in options:
        if name not in signature(ray().init).parameters and not name.startswith("_"):
            own = listed(["address", "cpus", "runtime_env", "timeout"])
            raise InvalidParameterError(f"the options of engine 'ray' must be {own} or those of ray.init, got {name!r}")
    if ray().is_initialized():
        return None
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address != "local":
        _join(address, timeout, {**quiet, **options})
        return _leave
    alone = {"num_cpus": cpus, "include_dashboard": False, "_node_ip_address": LOOPBACK}
    usage = {"RAY_USAGE_STATS_ENABLED": os.environ.get("RAY_USAGE_STATS_ENABLED", "0")}
    _put_token()
    try:
        with _loopback(), _sigterm_kept(), environment(usage):
            ray().init("local", **{**quiet, **alone, **options})
    except BaseException:
        _remove_token()
        raise
    return _leave


def _join(address: str, timeout: float, options: dict[str, Any]) -> None:
    """Connect to a running cluster; raise if it does not respond in time."""
    until, reason = time.monotonic() + timeout, f"it did not respond within {timeout:g} s"
    require_reachable("Ray", address, timeout)
    results: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def join() -> None:
        try:
            ray().init(address, **options)
        except BaseException as error:
            results.put(error)
        else:
            results.put(None)

    threading.Thread(target=join, name="connecting to Ray", daemon=True).start()
    with suppress(queue.Empty):
        failure = results.get(timeout=max(until - time.monotonic(), 0.1))
        if failure is None:
            return
        if isinstance(failure, ImportError):
            text = f"{address} needs Ray's client: {install('ray')} ({failure})"
            raise MissingPackageError(text) from failure
        reason = f"{failure}".partition("\n")[0]
    raise InvalidParameterError(f"no Ray cluster can be reached at {address}: {reason}")


def _leave() -> None:
    ray().shutdown()
    _remove_token()


@cache
def _token() -> str:
    """Return the token of this process. Ray remembers the first one for the life of the process."""
    atexit.register(_remove_token)
    return secrets.token_hex(32)


def _put_token() -> None:
    """Write a token file, unless Ray has a token already. Ray's own file would be readable in the home folder."""
    is_set = "RAY_AUTH_TOKEN" in os.environ or _PATH in os.environ
    if is_set or Path("~/.ray/auth_token").expanduser().exists():
        return
    path = private_folder(_PREFIX) / "token"
    path.touch(mode=0o600)
    path.write_text(_token())
    os.environ[_PATH] = str(path)


def _remove_token() -> None:
    """Remove the token file of this process."""
    folder = Path(os.environ.get(_PATH, "")).parent
    if folder.name.startswith(_PREFIX):
        del os.environ[_PATH]
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM, because Ray's handler drains the node, which takes long."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _loopback() -> Iterator[None]:
    """Let Ray use 127.0.0.1. If it may have other nodes, it uses the machine's outer address instead."""
    from ray._private import ray_constants

    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


# Each worker is an actor. Ray places the actors and notices when one dies. A new one then runs its task. Data and
# models are sent through Ray's object store. Arrays that are read from there are read-only.

T = TypeVar("T")


class RayLauncher:
    """Workers as Ray actors, spread over the nodes of a cluster.

    Parameters
    ----------
    workers : int
        The number of workers.
    address : str or None
        The cluster, as for ``ray.init``. None: the cluster that this process is connected to, or the variable
        RAY_ADDRESS. Otherwise a cluster is started on this machine, on the loopback interface only, and stopped by
        `close`.
    cpus : float
        The CPUs that each worker needs.
    runtime_env : dict or None
        The environment that Ray prepares for workers, such as ``{"py_modules": [thinstream]}`` if nodes do not have the
        package.
    timeout : float
        Seconds in which Ray must start a worker.
    **init
        Options for ``ray.init``.

    """

    remembers, worthwhile = True, 1 << 12

    def __init__(
        self,
        workers: int,
        *,
        address: str | None = None,
        cpus: float = 1,
        runtime_env: dict[str, Any] | None = None,
        timeout: float = 60.0,
        **init: Any,
    ) -> None:
        self.workers, self.timeout = require_count(workers), timeout
        self._leave = connect(address, ceil(self.workers * cpus), init, timeout)
        options = {"num_cpus": cpus, "scheduling_strategy": "SPREAD", "max_restarts": 0, "runtime_env": runtime_env}
        self._kind = ray().remote(**options)(_Worker)
        self._actors: list[Any] = []
        try:
            self._require_room(cpus)
            self._actors += [self._kind.remote() for _ in range(self.workers)]
            self._wait_for(range(self.workers))
        except BaseException:
            self.close()
            raise

    def share(self, value: T) -> Callable[[], T]:
        """Put a value into the object store once; the callable returns it in a worker, read-only."""
        return partial(ray().get, ray().put(value))

    def run_tasks(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run task i on actor i; return the answers. If an actor died, a new one runs its task again."""
        self._check(tasks)
        answers: list[Any] = [None] * len(tasks)
        losses = [0] * len(tasks)
        pending = {self._actors[i].run.remote(task): i for i, task in enumerate(tasks)}
        while pending:
            [first, *_], _ = ray().wait(list(pending))
            i = pending.pop(first)
            try:
                answers[i] = ray().get(first)
            except ray().exceptions.RayTaskError as error:
                raise with_worker(error.cause, i) from error
            except ray().exceptions.RayError as error:  # the process, its node or the answer is gone
                losses[i] += 1
                if losses[i] > RETRIES:
                    raise WorkerLostError(f"worker {i} died {losses[i]} times with the same task: {error}") from error
                report_loss(i, error)
                self._replace([i])
                pending[self._actors[i].run.remote(tasks[i])] = i
        return answers

    def close(self) -> None:
        """Stop the workers, and the cluster if it was started here; a second call does nothing."""
        actors, self._actors = self._actors, []
        if ray().is_initialized():
            for actor in actors:
                ray().kill(actor)
        if self._leave is not None:
            self._leave()
        self._leave = None

    def _require_room(self, cpus: float) -> None:
        """Raise at once if the cluster is too small."""
        available = ray().cluster_resources().get("CPU", 0)
        if self.workers * cpus > available:
            raise InvalidParameterError(
                f"{self.workers} workers need {cpus:g} CPU each, but the cluster has {available:g} CPUs. Use fewer "
                "workers, or less CPU for each: engine_options={'cpus': …}"
            )

    def _check(self, tasks: Sequence[object]) -> None:
        if len(tasks) > len(self._actors):
            state = "is closed" if not self._actors else f"has {self.workers} workers"
            raise InvalidParameterError(f"the launcher {state}, got {len(tasks)} tasks")

    def _replace(self, numbers: Sequence[int]) -> None:
        self._renew(numbers)
        self._wait_for(numbers)

    def _renew(self, numbers: Sequence[int]) -> None:
        for i in numbers:
            ray().kill(self._actors[i])  # it may still run
            self._actors[i] = self._kind.remote()

    def _wait_for(self, numbers: Sequence[int]) -> None:
        """Wait until workers run, with a time limit, because Ray itself would wait indefinitely."""
        greetings = [self._actors[i].greet.remote() for i in numbers]
        try:
            versions = ray().get(greetings, timeout=self.timeout)
        except ray().exceptions.GetTimeoutError as error:
            free, all_of_it = ray().available_resources().get("CPU", 0), ray().cluster_resources().get("CPU", 0)
            raise WorkerLostError(
                f"Ray could not start {self.workers} workers within {self.timeout:g} s. "
                f"{free:g} of the cluster's {all_of_it:g} CPUs are free"
            ) from error
        except ray().exceptions.RayError as error:
            raise WorkerLostError(
                f"Ray could not start a worker. Check that its node has thinstream. {error}"
            ) from error
        for version in versions:
            if version != __version__:
                raise WorkerLostError(
                    f"a node has thinstream {version}, but this process has {__version__}. Install the "
                    f"same version on all nodes"
                )


class _Worker:
    def greet(self) -> str:
        return __version__

    def run(self, task: Callable[[], T]) -> T:
        return task()


_HEAD = 1024  # rows in the fingerprint


class DatasetColumns(TableColumns):
    owner, shown_as = "a Ray Dataset", "the dataset"


@dataclass(frozen=True)
class Stretch:
    """Some rows of a block in the object store."""

    block: Any
    schema: Any
    first: int
    rows: int

    def __call__(self) -> Any:
        """Return the rows as a table."""
        rows = _plain(ray().get(self.block).slice(self.first, self.rows))
        return rows.select(self.schema.names).cast(self.schema)


class RayDatasetSource:
    """Rows of a Ray Dataset in order, as list columns of feature numbers and values, or one column per feature.

    The dataset is computed once, into Ray's object store, so that a replaced worker can read its rows again.

    Parameters
    ----------
    dataset : ray.data.Dataset
        The rows.
    **columns
        The meaning of the columns, see `TableColumns`.

    """

    def __init__(self, dataset: Any, **columns: Any) -> None:
        self._columns = DatasetColumns.of(columns)
        blocks = _materialize(dataset)
        look = ray().remote(num_cpus=0)(_look)
        looks = ray().get([look.remote(block) for block in blocks])
        self._blocks = [(block, rows) for block, (rows, _) in zip(blocks, looks, strict=True) if rows]
        if not self._blocks:
            raise InvalidInputError("the Ray Dataset has no rows")
        self._schema = _common([schema for rows, schema in looks if rows])
        self._whole = self.shards(1)[0].open()
        self.dtype, self.classes, self.feature_space = self._whole.dtype, self._whole.classes, self._whole.feature_space

    @cached_property
    def _head(self) -> str:
        """A checksum of the first rows, which does not depend on the blocks of the dataset."""
        left, seen = _HEAD, [bytearray() for _ in range(3)]
        for batch in self._whole.batches():
            rows = min(left, len(batch))
            end = int(batch.indptr[rows])
            arrays = batch.indices[:end].astype(np.int64), batch.values[:end], np.asarray(batch.y)[:rows]
            for kept, array in zip(seen, arrays, strict=True):
                kept += array.tobytes()
            left -= rows
            if not left:
                break
        return f"{xxh3_64_intdigest(b''.join(seen)):016x}"

    def fingerprint(self) -> dict[str, Any]:
        """Return the number of rows, a checksum of the first ones, and the meaning of the columns."""
        return {**self._whole.fingerprint(), "kind": "ray", "head": self._head}

    def shards(self, workers: int) -> list[TableShard]:
        """Cut the rows into parts of equal length, which do not depend on the blocks of the dataset."""
        shards = []
        for parts in cut([rows for _, rows in self._blocks], workers):
            stretches = [(Stretch(self._blocks[k][0], self._schema, first, rows), rows) for k, first, rows in parts]
            shards.append(TableShard(tuple(stretches), tuple(self._schema.names), self._columns))
        return shards


def _materialize(dataset: Any) -> list[Any]:
    """Return references to the blocks in order. Ray keeps the order only if `preserve_order` is set."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        blocks: list[Any] = dataset.materialize().to_arrow_refs()
    finally:
        options.preserve_order = before
    return blocks


def _look(table: Any) -> tuple[int, Any]:
    return table.num_rows, _plain(table.slice(0, 0)).schema


def _common(schemas: list[Any]) -> Any:
    """Return one schema for all blocks. If all lists of a block are empty, the block does not know their type."""
    try:
        return pyarrow().unify_schemas(schemas, promote_options="permissive")
    except pyarrow().ArrowException as error:
        raise InvalidInputError(f"the blocks of the Ray Dataset have columns of different types: {error}") from error


def _plain(table: Any) -> Any:
    """Convert Ray's tensor columns, which come from arrays, to lists."""
    for number, field in enumerate(table.schema):
        if not hasattr(field.type, "storage_type"):
            continue
        dtype, chunks = field.type.storage_type, [chunk.storage for chunk in table.column(number).chunks]
        if pyarrow().types.is_struct(dtype):  # of different lengths: data and shapes
            dtype, chunks = dtype.field("data").type, [chunk.field("data") for chunk in chunks]
        table = table.set_column(number, field.name, pyarrow().chunked_array(chunks, dtype))
    return table
