"""How much memory there is: the machine's, or what a container's control groups leave of it."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

#: Where Linux shows limits, and the groups of this process.
GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


@cache
def physical_memory() -> int:
    """Bytes this process may have; a lot, where the system does not say."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        machine = 1 << 62
    return min([machine, *group_limits()])


def group_limits() -> list[int]:
    """Limits of the control groups (of both versions) this process is in, and of those around them."""
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:  # not Linux
        return []
    found = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, file = GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, file = GROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        place = root / group.lstrip("/")
        while place.is_relative_to(root):
            with suppress(OSError, ValueError):  # no such file, or "max": no limit here
                found.append(int((place / file).read_text()))
            place = place.parent
    return [limit for limit in found if limit > 0]
