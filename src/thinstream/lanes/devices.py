"""The devices that lanes run on: the CPU (with several threads), or a GPU."""

import importlib.util
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Lock
from typing import Any

from thinstream.engine.losses import LOGISTIC
from thinstream.engine.memory import is_full
from thinstream.errors import DeviceWarning, InvalidParameterError, listed

DEVICES = ("cpu", "cuda")
#: Values of ``device`` for many lanes: "auto" uses a GPU if there is one and it is likely to be faster.
CHOICES = ("auto", *DEVICES)
#: A GPU is likely to be faster from this many lanes per CPU thread on, and from this many lanes in all.
PER_THREAD, FEWEST = 64, 256
#: Rules whose rounds cost more than O(non-zeros), and whose powers differ in bits on a GPU.
CPU_ONLY = ("SMIDAS",)


def device_for(device: str, rules: Sequence[Any]) -> str:
    """Return the checked device. If a rule cannot run on a GPU, warn and return the CPU."""
    if device not in DEVICES:
        raise InvalidParameterError(f"device must be {listed(DEVICES)}, got {device!r}")
    stays = next((rule for rule in rules if stays_on_cpu(rule)), None) if device == "cuda" else None
    if stays is None:
        return device
    warnings.warn(f"{described(stays)} runs on the CPU only, so these lanes do", DeviceWarning, stacklevel=4)
    return "cpu"


def described(rule: Any) -> str:
    """Return a description of a rule that only runs on the CPU."""
    name = type(rule).__name__
    return f"{name} with covariance='full'" if is_full(rule) else name


def chosen_device(device: str, lanes: int, threads: int) -> str:
    """Return the requested device. For "auto", return the one that is likely to be faster."""
    if device not in CHOICES:
        raise InvalidParameterError(f"device must be {listed(CHOICES)}, got {device!r}")
    if device != "auto":
        return device
    pays = lanes >= max(PER_THREAD * threads, FEWEST)
    return "cuda" if pays and has_gpu() else "cpu"


def has_gpu() -> bool:
    """Return whether this machine has a GPU that lanes can use."""
    if importlib.util.find_spec("numba_cuda") is None:
        return False
    from thinstream.lanes.cuda.package import SIMULATED, cuda  # which takes half a second

    return not SIMULATED and bool(cuda.is_available())


def require_gpu() -> None:
    """Raise unless this machine has a GPU that lanes can use, or numba's simulator of one."""
    from thinstream.lanes.cuda.package import require_device

    require_device()


def gpu_room() -> int:
    """Return the bytes that lanes may use on the GPU."""
    from thinstream.lanes.cuda.block import CudaBlock

    return CudaBlock.room()


def can_run_on_gpu(rule: Any, device: str) -> bool:
    """Return whether lanes can run on a GPU. With "auto", this requires bit-identical results."""
    return not stays_on_cpu(rule) and (device == "cuda" or not has_other_bits(rule))


def has_other_bits(rule: Any) -> bool:
    """Return whether results of a rule differ in the last bits on a GPU, because of its exp and log."""
    return getattr(rule, "loss", 0) == LOGISTIC


def stays_on_cpu(rule: Any) -> bool:
    """Return whether models of a rule only run on the CPU."""
    return is_full(rule) or type(rule).__name__ in CPU_ONLY


# Threads that run tasks in parallel. They persist between calls, because starting a thread costs as much as a task.

_pools: dict[int, ThreadPoolExecutor] = {}
_making = Lock()


def run_all(tasks: Iterable[Callable[[], object]], threads: int) -> None:
    """Run tasks on up to ``threads`` threads, the calling thread among them, and return when all have ended.

    A task may call this function itself. If a task raises, tasks that have not begun are left out.

    >>> found = []
    >>> run_all([lambda: found.append(1), lambda: found.append(2)], threads=2)
    >>> sorted(found)
    [1, 2]
    """
    waiting = deque(tasks)
    if threads == 1 or len(waiting) < 2:
        for task in waiting:
            task()
        return

    def work() -> None:
        while waiting:
            try:
                task = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            task()

    helpers = [_pool(threads).submit(work) for _ in range(min(threads, len(waiting)) - 1)]
    try:
        work()
    except BaseException:
        waiting.clear()
        raise
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()


def _pool(threads: int) -> ThreadPoolExecutor:
    with _making:
        if threads not in _pools:
            _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="learning")
        return _pools[threads]


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads; Windows does not fork
    os.register_at_fork(after_in_child=_pools.clear)
