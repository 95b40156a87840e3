"""The one place where Ray, an optional package, is imported, and how a run comes to a cluster."""

import atexit
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thinstream.errors import MissingPackageError

LOOPBACK = "127.0.0.1"


def ray() -> Any:
    """The package; imported when first needed."""
    try:
        import ray
    except ImportError as error:
        raise MissingPackageError("engine='ray' needs Ray: pip install 'thinstream[ray]'") from error
    return ray


def connect(address: str | None, cpus: int, options: dict[str, Any]) -> bool:
    """Joins a cluster, or starts one here that only this machine can reach; whether it is ours to leave again.

    A connection that is there already is used as it is. Otherwise ``address``, or else the variable RAY_ADDRESS, says
    which cluster to join. A cluster of our own has no dashboard, and nobody gets in without its token.
    """
    if ray().is_initialized():
        return False
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address != "local":
        ray().init(address, **{**quiet, **options})
        return True
    alone = {"num_cpus": cpus, "include_dashboard": False, "_node_ip_address": LOOPBACK}
    _have_token()
    with _loopback(), _setting("RAY_USAGE_STATS_ENABLED", "0"):
        ray().init("local", **{**quiet, **alone, **options})
    return True


def _have_token() -> None:
    """Makes a token for this process, unless there is one; Ray's own would stay in the home, readable to all."""
    told = "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ
    if told or Path("~/.ray/auth_token").expanduser().exists():
        return
    folder = Path(tempfile.mkdtemp(prefix="thinstream-ray-"))  # for its owner only
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "token"
    path.write_text(secrets.token_hex(32))
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)  # Ray remembers the token for as long as the process runs


@contextmanager
def _loopback() -> Iterator[None]:
    """Lets Ray take 127.0.0.1; wherever it could have other nodes it takes the machine's outer address instead."""
    from ray._private import ray_constants

    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _setting(name: str, value: str) -> Iterator[None]:
    """A variable of the environment that is set for a while, unless somebody else has."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
