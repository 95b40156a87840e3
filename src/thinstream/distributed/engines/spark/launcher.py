"""Workers on Spark: a task of a stage each, in the Python processes of its executors.

Spark decides where a task runs, and runs it again elsewhere if its process or executor dies; so a worker cannot count
on what its process remembers. Tasks that talk to each other are a barrier stage: all of them run, or none.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from thinstream.distributed.engines.launcher import Exchange, require_count
from thinstream.distributed.engines.spark.package import executors_of, session_for, wait_for
from thinstream.distributed.engines.spark.tasks import Answer, BarrierStage, Stage, run_stage, unpack_answers
from thinstream.errors import InvalidParameterError

T = TypeVar("T")


class SparkLauncher:
    """Workers as tasks of Spark, spread over the executors of a cluster.

    Parameters
    ----------
    workers : int
        How many. Spark runs as many at a time as it has cores for (``spark.task.cpus`` each).
    session : SparkSession or None
        None: the active one, else that of ``master`` or of ``spark-submit``, else one is started on this machine, on
        the loopback interface only, with an executor for each worker, and stopped by `close`.
    master : str or None
        The cluster to join where no session is active, such as ``spark://host:7077``.
    memory : int
        Megabytes of each executor, if a cluster is started on this machine; Python's own come on top.
    config : dict
        Further settings of a session that is made here.

    """

    remembers, worthwhile = False, 1 << 16  # a round costs 0.2 to 0.5 s

    def __init__(
        self,
        workers: int,
        *,
        session: Any = None,
        master: str | None = None,
        memory: int = 1024,
        config: Mapping[str, str] = {},
    ) -> None:
        self.workers = require_count(workers)
        self.session, self._leave = session_for(self.workers, session, master, memory, config)
        self._open = True
        self._kept: dict[int, Any] = {}
        if not hasattr(self.session, "_jsparkSession"):
            raise InvalidParameterError("engine='spark' needs a classic session: Spark Connect has no broadcasts")

    def share(self, value: T) -> Callable[[], T]:
        """`value` as a broadcast: sent to each executor once, and dropped when nobody here has the callable."""
        broadcast = self.session.sparkContext.broadcast(value)
        shared = partial(attrgetter("value"), broadcast)
        weakref.finalize(shared, _forget, broadcast).atexit = False
        return shared

    def run_tasks(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Answers of tasks; one whose process died is run again by Spark, ``spark.task.maxFailures`` times in all."""
        if not tasks:
            return []
        self._check(tasks)
        found = run_stage(self._partitions(len(tasks)), Stage(tuple(tasks)))
        self._drop_crowded(found)
        return unpack_answers(found)

    def run_together(self, tasks: Sequence[Callable[[Exchange], T]]) -> list[T]:
        """Answers of tasks that run at the same time, in a barrier stage; `allGather` is their exchange."""
        if not tasks:
            return []
        self._check(tasks)
        wait_for(self.session, len(tasks))
        # not from the partitions: a gang starts at once or not at all, and cannot wait for places
        numbers = self.session.range(0, len(tasks), 1, len(tasks))
        return unpack_answers(run_stage(numbers, BarrierStage(tuple(tasks))))

    def close(self) -> None:
        """Ends the cluster if it was started here; a second time does nothing."""
        if self._open:
            self._open = False
            for partitions in self._kept.values():
                with suppress(Exception):  # the cluster may be gone
                    partitions.unpersist()
            self._leave()

    def _check(self, tasks: Sequence[object]) -> None:
        if not self._open:
            raise InvalidParameterError(f"the launcher is closed, got {len(tasks)} tasks")

    def _partitions(self, count: int) -> Any:
        """A partition for each task, kept in memory: Spark likes to run a task where its partition is.

        So a worker mostly finds what its process remembers of its shard.
        """
        if count not in self._kept:
            self._kept[count] = self.session.range(0, count, 1, count).persist()
        return self._kept[count]

    def _drop_crowded(self, found: Sequence[Answer]) -> None:
        """Gives up partitions that ended up beside each other, when an executor died, while another has room."""
        used = len({answer.executor for answer in found})
        if used < len(found) and used < executors_of(self.session):
            self._kept.pop(len(found)).unpersist()


def _forget(broadcast: Any) -> None:
    with suppress(Exception):  # the session may be over
        broadcast.destroy()
