"""The features of a row put in order, compiled: insertion in short runs, which are then merged."""

from typing import Any

from thinstream.jit import scalar

_RUN = 16  # pairs sorted by insertion


@scalar
def sort_pairs(indices: Any, values: Any, start: Any, stop: Any, spare: Any, spare_values: Any) -> None:
    """Sorts pairs by index; equal ones stay in the order they came in."""
    for low in range(start, stop, _RUN):
        for k in range(low + 1, min(low + _RUN, stop)):
            index, value, at = indices[k], values[k], k
            while at > low and indices[at - 1] > index:
                indices[at], values[at] = indices[at - 1], values[at - 1]
                at -= 1
            indices[at], values[at] = index, value
    run = _RUN
    while run < stop - start:
        for low in range(start, stop - run, 2 * run):
            for k in range(run):
                spare[k], spare_values[k] = indices[low + k], values[low + k]
            left, right, high, at = 0, low + run, min(low + 2 * run, stop), low
            while left < run:
                if right < high and indices[right] < spare[left]:
                    indices[at], values[at] = indices[right], values[right]
                    right += 1
                else:
                    indices[at], values[at] = spare[left], spare_values[left]
                    left += 1
                at += 1
        run *= 2
