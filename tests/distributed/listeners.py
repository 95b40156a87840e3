"""Which sockets a process and its descendants listen on, from /proc."""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

import pytest

_LISTENING = "0A"


class Listener(NamedTuple):
    process: str
    host: str
    port: int

    @property
    def loopback(self) -> bool:
        address = ip_address(self.host)
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return (mapped or address).is_loopback


def listeners(roots: Iterable[int]) -> list[Listener]:
    """Those of these processes and all that descend from them."""
    if not Path("/proc/net/tcp").exists():
        pytest.skip("listeners are found in /proc, which this system does not have")
    sockets = {}
    for table in ("tcp", "tcp6"):
        sockets |= parsed(Path("/proc/net", table).read_text())
    result = []
    for pid in _family(roots):
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            targets = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
        except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
            continue
        result += [Listener(name, *sockets[target]) for target in targets if target in sockets]
    return result


def parsed(table: str) -> dict[str, tuple[str, int]]:
    """Addresses and ports of the listening sockets in a table of the kernel, by what /proc/PID/fd links to."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return {f"socket:[{row[9]}]": _address(row[1]) for row in rows if row[3] == _LISTENING}


def _address(text: str) -> tuple[str, int]:
    host, port = text.split(":")
    words = [bytes.fromhex(host[i : i + 8])[::-1] for i in range(0, len(host), 8)]  # each in the machine's order
    return str(ip_address(b"".join(words))), int(port, 16)


def _family(roots: Iterable[int]) -> set[int]:
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    family, before = set(roots), 0
    while len(family) > before:
        before = len(family)
        family |= {pid for pid, parent in parents.items() if parent in family}
    return family
