"""Workers on Ray: an actor each.

Ray finds them a place and notices when one dies; a new one then takes over its task. Data and models travel through
Ray's object store; what is read from there, such as arrays of a shared value, cannot be written to.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import Any, TypeVar

import thinstream
from thinstream.distributed.engines.launcher import RETRIES, Exchange, cause, require_count, with_worker
from thinstream.distributed.engines.ray.package import connect, ray
from thinstream.errors import InvalidParameterError, PeerLostError, WorkerLostError

T = TypeVar("T")

#: Seconds that the others have to end by themselves after one of them failed.
GRACE = 5.0


class RayLauncher:
    """Workers as actors of Ray, spread over the nodes of a cluster.

    Parameters
    ----------
    workers : int
        How many.
    address : str or None
        The cluster, as ``ray.init`` takes it. None: the one this process is connected to, else that of the variable
        RAY_ADDRESS, else one is started on this machine, on the loopback interface only, and stopped by `close`.
    cpus : float
        How much of a node each worker takes.
    runtime_env : dict or None
        What Ray prepares for the workers, e.g. ``{"py_modules": [thinstream]}`` where nodes do not have the package.
    timeout : float
        Seconds in which Ray must find a place for a worker and start it.
    **init
        For ``ray.init``.

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
        self._leave = connect(address, ceil(self.workers * cpus), init)
        options = {"num_cpus": cpus, "scheduling_strategy": "SPREAD", "max_restarts": 0, "runtime_env": runtime_env}
        self._kind = ray().remote(**options)(_Worker)
        self._actors: list[Any] = []
        self._gatherer: Any = None
        self._members = 0
        try:
            self._require_room(cpus)
            self._actors += [self._kind.remote() for _ in range(self.workers)]
            self._wait_for(range(self.workers))
        except BaseException:
            self.close()
            raise

    def share(self, value: T) -> Callable[[], T]:
        """`value`, put into the object store once; the callable answers it in a worker, read-only."""
        return partial(ray().get, ray().put(value))

    def run_tasks(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Answers of tasks, task i run by actor i; one whose actor died is run again by a new one."""
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
                self._replace([i])
                pending[self._actors[i].run.remote(tasks[i])] = i
        return answers

    def run_together(self, tasks: Sequence[Callable[[Exchange], T]]) -> list[T]:
        """Answers of tasks that run at the same time; if one fails, the others have a moment to notice it."""
        self._check(tasks)
        if self._gatherer is None or self._members != len(tasks):
            self._members = len(tasks)
            self._gatherer = ray().remote(num_cpus=0, max_concurrency=self.workers)(_Gatherer).remote(self._members)
        refs = [self._actors[i].run_together.remote(task, self._gatherer, i) for i, task in enumerate(tasks)]
        try:
            answers: list[T] = ray().get(refs)
            return answers
        except BaseException as error:
            ray().kill(self._gatherer)  # so that nobody waits there for one who does not come
            self._gatherer = None
            if isinstance(error, ray().exceptions.RayError):
                raise self._settle(refs) from error
            self._renew(range(len(tasks)))  # the run was stopped here, they would go on
            raise

    def close(self) -> None:
        """Ends the workers, and the cluster if it was started here; a second time does nothing."""
        actors, self._actors, self._gatherer = [*self._actors, self._gatherer], [], None
        if ray().is_initialized():
            for actor in actors:
                if actor is not None:
                    ray().kill(actor)
        if self._leave is not None:
            self._leave()
        self._leave = None

    def _require_room(self, cpus: float) -> None:
        """Raises at once if the cluster is too small, however long one would wait."""
        found = ray().cluster_resources().get("CPU", 0)
        if self.workers * cpus > found:
            raise InvalidParameterError(
                f"{self.workers} workers of {cpus:g} CPU each, but the cluster has {found:g} CPUs: take fewer workers, "
                "or less of a CPU for each, engine_options={'cpus': …}"
            )

    def _check(self, tasks: Sequence[object]) -> None:
        if len(tasks) > len(self._actors):
            what = "is closed" if not self._actors else f"has {self.workers} workers"
            raise InvalidParameterError(f"the launcher {what}, got {len(tasks)} tasks")

    def _settle(self, refs: list[Any]) -> BaseException:
        """After a failure: the error that began it."""
        ended, running = ray().wait(refs, num_returns=len(refs), timeout=GRACE)
        errors, gone = dict[int, BaseException](), [refs.index(ref) for ref in running]
        for i in map(refs.index, ended):
            try:
                ray().get(refs[i])
            except ray().exceptions.RayTaskError as error:
                errors[i] = error.cause
            except ray().exceptions.RayError as error:
                errors[i] = WorkerLostError(f"worker {i} died: {error}")
                gone.append(i)
        self._replace(gone)
        return cause(errors)

    def _replace(self, numbers: Sequence[int]) -> None:
        self._renew(numbers)
        self._wait_for(numbers)

    def _renew(self, numbers: Sequence[int]) -> None:
        for i in numbers:
            ray().kill(self._actors[i])  # it may only seem dead
            self._actors[i] = self._kind.remote()

    def _wait_for(self, numbers: Sequence[int]) -> None:
        """Waits until workers run; a cluster that has no place for one would let us wait for ever."""
        greetings = [self._actors[i].greet.remote() for i in numbers]
        try:
            versions = ray().get(greetings, timeout=self.timeout)
        except ray().exceptions.GetTimeoutError as error:
            free, all_of_it = ray().available_resources().get("CPU", 0), ray().cluster_resources().get("CPU", 0)
            raise WorkerLostError(
                f"Ray found no place for {self.workers} workers in {self.timeout:g} s; "
                f"{free:g} of the cluster's {all_of_it:g} CPUs are free"
            ) from error
        except ray().exceptions.RayError as error:
            raise WorkerLostError(f"Ray could not start a worker; does its node have thinstream? {error}") from error
        for version in versions:
            if version != thinstream.__version__:
                raise WorkerLostError(f"a node has thinstream {version}, but {thinstream.__version__} is needed")


class _Worker:
    """What runs in an actor."""

    def greet(self) -> str:
        return thinstream.__version__

    def run(self, task: Callable[[], T]) -> T:
        return task()

    def run_together(self, task: Callable[[Exchange], T], gatherer: Any, worker: int) -> T:
        return task(_Exchange(gatherer, worker))


class _Exchange:
    """A worker's way to the gatherer; ``host`` is the address under which others reach its node."""

    def __init__(self, gatherer: Any, worker: int) -> None:
        self.host: str = ray().util.get_node_ip_address()
        self._gatherer, self._worker = gatherer, worker

    def __call__(self, text: str) -> list[str]:
        try:
            answer: list[str] = ray().get(self._gatherer.gather.remote(self._worker, text))
        except ray().exceptions.RayError as error:
            raise PeerLostError("a worker was lost before all had told their addresses") from error
        return answer


class _Gatherer:
    """Where texts are handed in and, once all are there, handed out."""

    def __init__(self, members: int) -> None:
        self._texts, self._all = [""] * members, asyncio.Barrier(members)

    async def gather(self, worker: int, text: str) -> list[str]:
        self._texts[worker] = text
        await self._all.wait()
        found = list(self._texts)
        await self._all.wait()  # nobody hands in the next before all have these
        return found
