"""Where lanes live: on the CPU, or on a GPU where that is asked for and can be."""

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

from thinstream.engine.losses import LOGISTIC
from thinstream.errors import DeviceWarning, InvalidParameterError, listed
from thinstream.learners.memory import is_full

DEVICES = ("cpu", "cuda")
#: What may be asked for where lanes are many: "auto" takes a GPU where there is one and it pays.
CHOICES = ("auto", *DEVICES)
#: Lanes from which on it does: so many per thread of the CPU, and never fewer, as kernels have to be compiled.
PER_THREAD, FEWEST = 64, 256
#: Rules whose rounds cost more than their example, and whose powers have other bits on a GPU.
CPU_ONLY = ("SMIDAS",)


def device_for(device: str, rules: Sequence[Any]) -> str:
    """The device, checked; the CPU, with a warning, where a GPU is asked for and one of the rules cannot run on it."""
    if device not in DEVICES:
        raise InvalidParameterError(f"device must be {listed(DEVICES)}, got {device!r}")
    stays = next((rule for rule in rules if stays_on_cpu(rule)), None) if device == "cuda" else None
    if stays is None:
        return device
    warnings.warn(f"{described(stays)} runs on the CPU only, so these lanes do", DeviceWarning, stacklevel=4)
    return "cpu"


def described(rule: Any) -> str:
    """What it is that runs on the CPU only."""
    name = type(rule).__name__
    return f"{name} with covariance='full'" if is_full(rule) else name


def chosen_device(device: str, lanes: int, threads: int) -> str:
    """The device that is asked for, or by "auto" the one that such lanes are likely to be faster on."""
    if device not in CHOICES:
        raise InvalidParameterError(f"device must be {listed(CHOICES)}, got {device!r}")
    if device != "auto":
        return device
    pays = lanes >= max(PER_THREAD * threads, FEWEST)
    return "cuda" if pays and has_gpu() else "cpu"


def has_gpu() -> bool:
    """Whether lanes could live on a GPU of this machine."""
    if importlib.util.find_spec("numba_cuda") is None:
        return False
    from thinstream.lanes.cuda.package import SIMULATED, cuda  # which takes half a second

    return not SIMULATED and bool(cuda.is_available())


def require_gpu() -> None:
    """Raises unless lanes could live on a GPU of this machine, or in numba's simulator of one."""
    from thinstream.lanes.cuda.package import require_device

    require_device()


def gpu_room() -> int:
    """Bytes lanes may take on the GPU."""
    from thinstream.lanes.cuda.block import CudaBlock

    return CudaBlock.room()


def may_leave(rule: Any, device: str) -> bool:
    """Whether a model that is to be trained may be on a GPU; by "auto" only if that changes none of its bits."""
    return not stays_on_cpu(rule) and (device == "cuda" or not has_other_bits(rule))


def has_other_bits(rule: Any) -> bool:
    """Whether the last bits of a model of a rule are others on a GPU, whose exp and log are of another library."""
    return getattr(rule, "loss", 0) == LOGISTIC


def stays_on_cpu(rule: Any) -> bool:
    """Whether models of a rule run on the CPU only."""
    return is_full(rule) or type(rule).__name__ in CPU_ONLY
