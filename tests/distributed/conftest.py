"""Clusters of two nodes on this machine, started when a test asks for one."""

import importlib.util
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RAY_NODE = {"node_ip_address": "127.0.0.1", "num_cpus": 1, "object_store_memory": 100_000_000}


@pytest.fixture(scope="session")
def ray_settings() -> Iterator[Path]:
    """The folder in which Ray keeps everything, also the token without which nobody gets in."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: make test-distributed, or pip install -e '.[ray]'")
    folder = Path(tempfile.mkdtemp(prefix="ray"))  # a short path: those of sockets may have 107 bytes
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    settings = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_TMPDIR": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback only; read when Ray is imported
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.delenv("RAY_AUTH_TOKEN", raising=False)
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ray_nodes(ray_settings: Path) -> Iterator[Any]:
    """A cluster of two nodes with a CPU each, whose nodes can be lost."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={**RAY_NODE, "include_dashboard": False, "include_log_monitor": False}
    )
    try:
        cluster.add_node(**RAY_NODE)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="session")
def ray_cluster(ray_nodes: Any) -> str:
    """Its address."""
    return str(ray_nodes.address)


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[Any]:
    """A session on a cluster of two executors, processes of this machine."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed: make test-distributed, or pip install -e '.[spark]'")
    from thinstream.distributed.engines.spark import local_cluster

    session, stop = local_cluster(2)
    try:
        yield session
    finally:
        stop()
