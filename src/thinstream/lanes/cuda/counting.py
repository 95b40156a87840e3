"""What lanes get right and wrong, counted where their scores are: a matrix of them is never fetched."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.lanes.cuda.kernels import launch
from thinstream.lanes.cuda.package import SIMULATED, cuda, kernel


@cache
def _counting(function: Any) -> Any:
    """A kernel with a thread per model, which counts its rows by a function of all of them."""
    count = cuda.jit(device=True)(function)

    def count_models(scores: Any, y: Any, roles: Any, role_of: Any, counts: Any, totals: Any, losses: Any) -> None:
        k = cuda.grid(1)
        if k < role_of.size:
            column = role_of[k]
            count(
                scores[:, k : k + 1],
                y,
                roles[:, column : column + 1],
                counts[..., k : k + 1],
                totals[..., k : k + 1],
                losses,
            )

    return kernel(count_models)


def count_on_device(
    function: Any,
    scores: Any,
    y: NDArray[Any],
    roles: NDArray[np.int8],
    role_of: NDArray[np.int32],
    counts: NDArray[Any],
    totals: NDArray[Any],
    losses: bool,
) -> None:
    """Counts the scores of models, [row, model, …] on the device, as ``function(scores, y, roles, counts, …)`` would.

    ``role_of`` has the column of a model in ``roles``; models are the last axis of ``counts`` and ``totals``.
    """
    held, threads = (cuda.to_device(counts), cuda.to_device(totals)), 1 if SIMULATED else 64
    given = [cuda.to_device(np.ascontiguousarray(array)) for array in (y, roles, role_of)]
    launch(_counting(function), -(-len(role_of) // threads), threads, scores, *given, *held, losses)
    held[0].copy_to_host(counts)
    held[1].copy_to_host(totals)
