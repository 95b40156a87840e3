"""The one place where Ray, an optional package, is imported, and how a run comes to a cluster."""

import atexit
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

from thinstream.distributed.engines.folders import private_folder
from thinstream.distributed.engines.launcher import LOOPBACK, environment
from thinstream.errors import InvalidParameterError, MissingPackageError, listed

_PATH, _PREFIX = "RAY_AUTH_TOKEN_PATH", "thinstream-ray-"


def ray() -> Any:
    """The package; imported when first needed."""
    try:
        import ray
    except ImportError as error:
        raise MissingPackageError("engine='ray' needs Ray: pip install 'thinstream[ray]'") from error
    return ray


def connect(address: str | None, cpus: int, options: dict[str, Any]) -> Callable[[], None] | None:
    """Joins a cluster, or starts one here that only this machine can reach; what leaves it, if that is ours to do.

    A connection that is there already is used as it is. Otherwise ``address``, or else the variable RAY_ADDRESS, says
    which cluster to join. A cluster of our own has no dashboard, and nobody gets in without its token.
    """
    for name in options:
        if name not in signature(ray().init).parameters and not name.startswith("_"):
            own = listed(["address", "cpus", "runtime_env", "timeout"])
            raise InvalidParameterError(f"engine 'ray' takes the options {own}, and those of ray.init, got {name!r}")
    if ray().is_initialized():
        return None
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address != "local":
        ray().init(address, **{**quiet, **options})
        return _leave
    alone = {"num_cpus": cpus, "include_dashboard": False, "_node_ip_address": LOOPBACK}
    _put_token()
    try:
        with _loopback(), environment({"RAY_USAGE_STATS_ENABLED": os.environ.get("RAY_USAGE_STATS_ENABLED", "0")}):
            ray().init("local", **{**quiet, **alone, **options})
    except BaseException:
        _remove_token()
        raise
    return _leave


def _leave() -> None:
    ray().shutdown()
    _remove_token()


@cache
def _token() -> str:
    """Of this process: Ray remembers the one it has read first for as long as the process runs."""
    atexit.register(_remove_token)
    return secrets.token_hex(32)


def _put_token() -> None:
    """A file with the token, unless Ray is told of one; Ray's own would stay in the home, readable to all."""
    told = "RAY_AUTH_TOKEN" in os.environ or _PATH in os.environ
    if told or Path("~/.ray/auth_token").expanduser().exists():
        return
    path = private_folder(_PREFIX) / "token"
    path.touch(mode=0o600)
    path.write_text(_token())
    os.environ[_PATH] = str(path)


def _remove_token() -> None:
    """The file, if it was put there by this process."""
    folder = Path(os.environ.get(_PATH, "")).parent
    if folder.name.startswith(_PREFIX):
        del os.environ[_PATH]
        shutil.rmtree(folder, ignore_errors=True)


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
