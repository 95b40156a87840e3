"""Encrypted addresses, and servers that ask who it is; a password is never told."""

import shutil
import subprocess

import pytest

from tests.data.brokers.servers import Nats, Redis
from thinstream.data.opening import open_stream
from thinstream.errors import SourceError

pytestmark = pytest.mark.services

OPTIONS = {"classes": (-1, 1), "idle_seconds": 0.5}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Of this machine, made by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(["openssl", "req", "-x509", *kind, *names, *files], check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def rows_of(url):
    stream = open_stream(url, **OPTIONS)
    try:
        return sum(map(len, stream.batches()))
    finally:
        stream.close()


def test_redis_encrypted(certificate, tmp_path):
    cert, key = certificate
    server = Redis(tmp_path)
    server.put([b"1 1:1", b"-1 2:1"])
    server.kill()
    server.options = ["--port", "0", "--tls-port", str(server.port), "--tls-cert-file", str(cert)]
    server.options += ["--tls-key-file", str(key), "--tls-ca-cert-file", str(cert), "--tls-auth-clients", "no"]
    server.start()
    try:
        url = server.url(ca=cert).replace("redis://", "rediss://")
        assert rows_of(url) == 2
        with pytest.raises(SourceError, match="CERTIFICATE_VERIFY_FAILED"):
            rows_of(url.partition("?")[0])
    finally:
        server.kill()


def test_nats_encrypted(certificate, tmp_path):
    cert, key = certificate
    server = Nats(tmp_path)
    server.put([b"1 1:1", b"-1 2:1"])
    server.kill()
    server.options = ["--tls", "--tlscert", str(cert), "--tlskey", str(key)]
    server.start()
    try:
        url = server.url(ca=cert).replace("nats://", "tls://")
        assert rows_of(url) == 2
        with pytest.raises(SourceError, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
            rows_of(url.partition("?")[0])
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("options", "right"), [(["--user", "ann", "--pass", "s3cret"], "ann:s3cret"), (["--auth", "s3cret"], "s3cret")]
)
def test_nats_asks_who_it_is(tmp_path, options, right):
    server = Nats(tmp_path)
    server.put([b"1 1:1", b"-1 2:1"])
    server.kill()
    server.options = options
    server.start()
    try:
        for wrong in ("", "ann:wr0ng@", "wr0ng@"):
            with pytest.raises(SourceError, match="the server refused the request") as raised:
                rows_of(server.url().replace("://", f"://{wrong}"))
            assert "wr0ng" not in str(raised.value)
        assert rows_of(server.url().replace("://", f"://{right}@")) == 2
    finally:
        server.kill()
