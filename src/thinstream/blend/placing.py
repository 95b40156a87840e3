"""Where a learner's models learn: a matter of the machine, which no model keeps."""

import warnings
from typing import Any

from thinstream.blend.learner import Blend
from thinstream.compact import narrow_learner
from thinstream.errors import DeviceWarning
from thinstream.lanes.devices import chosen_device, described, require_gpu, stays_on_cpu
from thinstream.learners.protocol import AnyLearner
from thinstream.one_vs_rest import OneVsRest
from thinstream.preparing import plain_learner


def check_device(learner: AnyLearner, device: str) -> None:
    """Raises on what is no device, or not there; warns where a GPU is asked for and the learner stays on the CPU."""
    chosen_device(device, 0, 1)
    if device != "cuda":
        return
    reason = _why_not(learner)
    if reason:
        warnings.warn(f"{reason}, so this model learns there", DeviceWarning, stacklevel=4)
    else:
        require_gpu()


def place(learner: AnyLearner, device: str) -> None:
    """Models that learn side by side may do so on the device, "cpu", "cuda" or "auto" (`lanes.devices`), from now on.

    Those are the models of many classes, and Auto's; others learn on the CPU.
    """
    held = _held(learner)
    if held is not None:
        if device == "cpu":
            held.come_home()
        held.device = device


def device_of(learner: AnyLearner) -> str:
    """Where its models may learn."""
    held = _held(learner)
    return "cpu" if held is None else held.device


def lanes_away(learner: AnyLearner) -> int:
    """Lanes that are on a GPU, 0 on the CPU."""
    held = _held(learner)
    return 0 if held is None else held.lanes_away


def come_home(learner: AnyLearner) -> None:
    """Whatever is on a GPU is on the CPU: it is read from there faster."""
    held = _held(learner)
    if held is not None:
        held.come_home()


def _held(learner: AnyLearner) -> OneVsRest | Blend | None:
    """What has models that learn side by side."""
    inner = plain_learner(narrow_learner(learner))
    return inner if isinstance(inner, OneVsRest | Blend) and not inner.weights_only else None


def _why_not(learner: AnyLearner) -> str:
    """What keeps a learner on the CPU, in words."""
    held, name = _held(learner), learner.algorithm.name
    if held is None:
        return f"{name} of two classes is a single model, which runs on the CPU"
    if name == "Auto":
        first: Any = held if isinstance(held, Blend) else held._held[0]
        return "" if first.lanes_for("cuda") else f"models of this {name} run on the CPU only"
    rule = held.rule if isinstance(held, Blend) else held._rule
    return f"{described(rule)} runs on the CPU only" if stays_on_cpu(rule) else ""
