"""Data sets: the catalogue, what is found where, and downloads that break in every way."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import thinstream.datasets as ts
from thinstream.cli.commands.datasets import _require_published_size
from thinstream.datasets import catalogue as the_catalogue
from thinstream.datasets import transfer
from thinstream.errors import (
    DownloadError,
    InvalidInputError,
    InvalidParameterError,
    MissingDataError,
    UnknownNameError,
)

DATA = b"".join(b"%+d 1:%d 7:0.25\n" % (1 if i % 3 else -1, i + 1) for i in range(40_000))


class Server(ThreadingHTTPServer):
    """Serves ``files`` on loopback, with ranges; what goes wrong is set by the tests."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}
        self.requests = []
        self.tag = '"one"'
        self.cut_after = None  # bytes of a body after which the connection is dropped
        self.pause_after = None  # … after which nothing more comes for a while
        self.redirect = None
        self.lie = 0  # added to the length

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        server, body = self.server, self.server.files.get(self.path)
        server.requests.append((self.path, self.headers.get("Range"), self.headers.get("If-Range")))
        self.close_connection = True
        if server.redirect:
            self.send_response(302)
            self.send_header("Location", server.redirect)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if body is None:
            return self.send_error(404)
        start = 0
        if self.headers.get("Range") and self.headers.get("If-Range") == server.tag:
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if server.tag:
            self.send_header("ETag", server.tag)
        self.send_header("Content-Length", str(len(body) - start + server.lie))
        self.end_headers()
        stop = len(body) if server.cut_after is None else min(len(body), start + server.cut_after)
        if server.pause_after is not None:
            self.wfile.write(body[start : start + server.pause_after])
            self.wfile.flush()
            time.sleep(30)
        else:
            self.wfile.write(body[start:stop])


@pytest.fixture
def server():
    """Has a9a."""
    found = Server()
    found.files = {"/a9a.train.svm": DATA, "/a9a.test.svm": DATA[:1000]}
    threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


@pytest.fixture
def get(server, tmp_path):
    """Downloads a9a from the server."""

    def run(**more):
        return ts.download("a9a", tmp_path, base=server.url, timeout=5, **more)

    return run


def test_catalogue():
    """Every set of the papers is there, whole, and either somewhere or with somebody to ask."""
    papers = {
        paper: {name for name, entry in ts.catalogue().items() if paper in entry.papers} for paper in ("P0", "P1")
    }
    assert papers["P0"] == {"aut", "pcmac", "news20", "rcv1", "url", "webspam", "url2", "webspam2"}
    assert papers["P1"] == {"covtype", "epsilon", "real-sim", "rcv1", "astro-ph", "url"}
    keys = {*ts.Dataset._fields}
    raw = tomllib.loads(Path(the_catalogue_file()).read_text(encoding="utf-8"))
    for name, entry in ts.catalogue().items():
        assert {*raw[name]} <= keys, name  # a misspelt key would be ignored
        assert bool(entry.files) != bool(entry.ask), name
        assert entry.rows > 0, name
        assert entry.positives is None or 0 < entry.positives < 1, name
        assert len({file.name for file in entry.files}) == len(entry.files)
        for file in entry.files:
            assert transfer.allowed(file.url) == file.url
            assert file.rows is None or file.rows <= entry.rows or name in ("svmguide3", "cod-rna")
            assert file.name.startswith(f"{name}.")
    assert ts.dataset("ijcnn1").files[1].name == "ijcnn1.test.svm.bz2"
    assert ts.dataset("a9a").files[1].source_name == "a9a.t"


def the_catalogue_file():
    return Path(ts.__file__).with_name("catalogue.toml")


def test_names_of_the_package():
    """Functions are not shadowed by the modules of the same name; scipy and http come when used."""
    assert callable(the_catalogue)
    assert callable(ts.download)
    assert ts.sparse_gaussian(5, 5)[0].y.shape == (5,)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ts.nonsense
    code = "import sys, thinstream.datasets as d; d.catalogue(); print({'scipy', 'numpy', 'http'} & {*sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


def test_folders(monkeypatch, tmp_path):
    """The variable, in order; else the cache of the user."""
    monkeypatch.setenv("THINSTREAM_DATA", os.pathsep.join([str(tmp_path / "a"), "", str(tmp_path / "b")]))
    assert ts.folders() == (tmp_path / "a", tmp_path / "b")
    monkeypatch.delenv("THINSTREAM_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ts.folders() == (tmp_path / "thinstream" / "data",)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ts.folders() == (tmp_path / ".cache" / "thinstream" / "data",)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert ts.folders() == (tmp_path / "local" / "thinstream" / "data",)


def make(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")


def test_find(tmp_path):
    """Parts in order, the faster of two copies, the first folder that has any, sources' names, sets of one's own."""
    one, two = tmp_path / "one", tmp_path / "two"
    make(
        one, "a9a.test.svm.xz", "a9a.train.svm.xz", "a9a.train.svm.gz", "a9a.train.features.json", "a9.svm", "a9ab.svm"
    )
    make(two, "a9a.svm", "w8a", "w8a.t", "mine.svm.bz2", "ijcnn1.t.bz2", "*.svm", "x.raw.jsonl.xz", "notes.txt")
    (two / "folder.svm").mkdir()

    def names(name, *folders):
        return [path.name for path in ts.find(name, folders)]

    assert names("a9a", one, two) == ["a9a.train.svm.gz", "a9a.test.svm.xz"]
    assert names("a9a", tmp_path / "none", two, one) == ["a9a.svm"]
    assert names("w8a", one, two) == ["w8a", "w8a.t"]
    assert names("ijcnn1", two) == ["ijcnn1.t.bz2"]
    assert names("mine", one, two) == ["mine.svm.bz2"]
    assert names("x", two) == ["x.raw.jsonl.xz"]
    assert ts.present([one, two]) == ["*", "a9", "a9a", "a9ab", "ijcnn1", "mine", "w8a", "x"]
    with pytest.raises(UnknownNameError, match=r"there is no dataset 'mime'; did you mean 'mine'\?"):
        ts.find("mime", [two])
    with pytest.raises(UnknownNameError, match="there is no dataset 'a'"):  # a part is not a pattern
        ts.find("a", [one])
    with pytest.raises(UnknownNameError):
        ts.find("", [one])
    with pytest.raises(UnknownNameError):
        ts.find("../two/mine", [one])


def test_absent(tmp_path):
    """Says where it was looked for, how much it is and how to get it, or that nobody has it and what is like it."""
    with pytest.raises(MissingDataError) as failure:
        ts.find("url", [tmp_path])
    assert str(tmp_path) in str(failure.value)
    assert "2,396,130 rows, 3,231,961 features, 277,058,644 non-zeros" in str(failure.value)
    assert str(failure.value).endswith("thinstream datasets url --download")
    assert isinstance(failure.value, FileNotFoundError)
    make(tmp_path, "20news-pcmac.train.svm.xz")
    with pytest.raises(
        MissingDataError,
        match=r"cannot be downloaded: the page of SVMlin.*a similar dataset is available: 20news-pcmac",
    ):
        ts.find("pcmac", [tmp_path])


def test_download(server, get, tmp_path, monkeypatch):
    """Files arrive whole, with their sums, found and verified; a second call asks for nothing."""
    seen = []
    paths = get(progress=lambda *state: seen.append(state))
    assert [path.name for path in paths] == ["a9a.train.svm", "a9a.test.svm"]
    assert paths[0].read_bytes() == DATA
    assert seen[0] == ("a9a.train.svm", 0, len(DATA))
    assert ("a9a.train.svm", len(DATA), len(DATA)) in seen
    assert seen[-1] == ("a9a.test.svm", 1000, 1000)
    sums = (tmp_path / "SHA256SUMS").read_text().splitlines()
    assert f"{hashlib.sha256(DATA).hexdigest()}  a9a.train.svm" in sums
    assert len(sums) == 2
    assert ts.find("a9a", [tmp_path]) == paths
    assert all(checked.recorded for checked in ts.verify("a9a", [tmp_path]))
    asked = len(server.requests)
    assert get() == paths
    assert len(server.requests) == asked
    assert [path.name for path in (tmp_path / ".partial").iterdir()] == ["lock"]
    monkeypatch.setenv("THINSTREAM_DATA", str(tmp_path / "new"))
    monkeypatch.setenv("THINSTREAM_DATA_URL", server.url + "/")
    assert ts.download("a9a", parts=["test"]) == [tmp_path / "new" / "a9a.test.svm"]


def test_a_part_that_is_there_in_another_form_is_not_fetched(server, get, tmp_path):
    """As somebody's own compressed copy, for example."""
    make(tmp_path, "a9a.train.svm.xz")
    assert [path.name for path in get()] == ["a9a.train.svm.xz", "a9a.test.svm"]
    assert [path for path, *_ in server.requests] == ["/a9a.test.svm"]


def test_verify(get, tmp_path):
    """A changed byte is noticed; files that were not downloaded have nothing to compare with."""
    path = get()[0]
    path.write_bytes(DATA[:-2] + b"6\n")
    with pytest.raises(
        InvalidInputError, match=r"a9a\.train\.svm is damaged or was changed: its sha256 is [0-9a-f]{64}"
    ):
        ts.verify("a9a", [tmp_path])
    make(tmp_path, "mine.svm")
    assert [checked.recorded for checked in ts.verify("mine", [tmp_path])] == [False]


def nothing_left(folder):
    return not [path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS"]


def test_broken_off_and_resumed(server, get, tmp_path):
    """What came is kept aside, and only the rest is asked for, of the same version."""
    server.cut_after = 300_000
    with pytest.raises(DownloadError, match=f"was interrupted after 300,000 of {len(DATA):,} bytes"):
        get()
    assert nothing_left(tmp_path)
    with pytest.raises(DownloadError, match=f"was interrupted after 600,000 of {len(DATA):,} bytes"):
        get()
    assert server.requests[-1] == ("/a9a.train.svm", "bytes=300000-", '"one"')
    server.cut_after = None
    assert get()[0].read_bytes() == DATA


@pytest.mark.parametrize("tag", ['"two"', 'W/"two"', ""])
def test_another_version_is_not_appended(server, get, tag):
    """The server has new bytes since, with a tag or without any: all of them are fetched."""
    server.cut_after = 300_000
    with pytest.raises(DownloadError, match="was interrupted after 300,000"):
        get()
    server.files["/a9a.train.svm"] = DATA[::-1]
    server.tag, server.cut_after = tag, 100_000
    with pytest.raises(DownloadError, match="was interrupted after 100,000"):
        get()
    server.cut_after = None
    assert get()[0].read_bytes() == DATA[::-1]


def test_whole_but_not_in_place_yet(server, get, tmp_path):
    """Ended between the last byte and the move: nothing is left to ask for."""
    partial = tmp_path / ".partial"
    partial.mkdir()
    (partial / "a9a.train.svm").write_bytes(DATA)
    (partial / "a9a.train.svm.from").write_text(f'{server.url}/a9a.train.svm\n"one"\n')
    assert get()[0].read_bytes() == DATA
    (tmp_path / "a9a.train.svm").unlink()
    (partial / "a9a.train.svm").write_bytes(DATA + b"more")
    (partial / "a9a.train.svm.from").write_text(f'{server.url}/a9a.train.svm\n"one"\n')
    assert get()[0].read_bytes() == DATA


def test_missing_there(server, get, tmp_path):
    """404 is said, with the address."""
    server.files.clear()
    with pytest.raises(
        DownloadError, match=rf"{server.url}/a9a.train.svm cannot be downloaded: the server responded 404"
    ):
        get()
    assert nothing_left(tmp_path)


def test_a_page_instead(server, get, tmp_path):
    """A web page that says it is fine is not data."""
    server.files["/a9a.train.svm"] = b"\n <!DOCTYPE html><title>moved</title>"
    with pytest.raises(DownloadError, match="is a web page, not data"):
        get()
    assert nothing_left(tmp_path)


def test_nobody_there(tmp_path, server):
    """A closed port and a silent server are errors within the time given."""
    with pytest.raises(DownloadError, match=r"cannot be downloaded: .*refused"):
        ts.download("a9a", tmp_path, base="http://127.0.0.1:9", timeout=5)
    server.pause_after = 300_000
    with pytest.raises(DownloadError, match=r"was interrupted after [\d,]+ of .* bytes \(.*timed out\)"):
        ts.download("a9a", tmp_path, base=server.url, timeout=0.3)


def test_too_large_for_the_disk(server, get, tmp_path):
    """Is known before it is full."""
    server.lie = 10**18
    with pytest.raises(DownloadError, match=r"needs 1,000,000,\d+,\d+,\d+,\d+ bytes, but .* has only"):
        get()


def test_wrong_checksum(server, get, tmp_path, monkeypatch):
    """Of a pinned file: refused, deleted, and not recorded."""
    entry = ts.dataset("a9a")
    pinned = entry._replace(files=(entry.files[0]._replace(sha256="0" * 64),))
    monkeypatch.setitem(ts.catalogue(), "a9a", pinned)
    with pytest.raises(DownloadError, match=f"must have the sha256 {'0' * 64}, got {hashlib.sha256(DATA).hexdigest()}"):
        get()
    assert nothing_left(tmp_path)
    assert not (tmp_path / "SHA256SUMS").exists()
    right = entry._replace(files=(entry.files[0]._replace(sha256=hashlib.sha256(DATA).hexdigest()),))
    monkeypatch.setitem(ts.catalogue(), "a9a", right)
    assert get()[0].read_bytes() == DATA


def test_check_of_the_caller(get, tmp_path):
    """Gets the file under its name and what is published; what it raises is raised, and nothing stays."""
    seen = []

    def check(path, published):
        seen.append((path.name, path.read_bytes() == DATA, published.rows))
        raise InvalidInputError("too few rows")

    with pytest.raises(InvalidInputError, match="too few rows"):
        get(check=check)
    assert seen == [("a9a.train.svm", True, 32561)]
    assert nothing_left(tmp_path)
    assert not (tmp_path / ".partial" / "a9a.train.svm").exists()


def test_published_sizes_are_compared(server, get, tmp_path, monkeypatch):
    """The command counts rows and non-zeros of what it fetched."""
    server.files["/a9a.train.svm"] = b"+1 1:1 2:1\n-1 2:1\n"
    published = "a9a.train.svm must have 32,561 rows and 451592 non-zeros, as published, got 2 and 3"
    with pytest.raises(InvalidInputError, match=published):
        get(check=_require_published_size)
    assert nothing_left(tmp_path)
    entry = ts.dataset("a9a")
    smaller = entry._replace(files=(entry.files[0]._replace(rows=2, nonzeros=3),))
    monkeypatch.setitem(ts.catalogue(), "a9a", smaller)
    assert get(check=_require_published_size) == [tmp_path / "a9a.train.svm"]


PROGRAM = "import sys; from thinstream.datasets import download; download('a9a', sys.argv[1], base=sys.argv[2])"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_killed_midway(server, get, tmp_path):
    """A killed process leaves nothing under the final name; until then a second one waits; later one goes on."""
    server.pause_after = 600_000
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), server.url], stderr=subprocess.PIPE)
    partial = tmp_path / ".partial" / "a9a.train.svm"
    try:
        deadline = time.monotonic() + 20
        while not (partial.exists() and partial.stat().st_size > 200_000):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(DownloadError, match="another process is downloading into"):
            get()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
    assert nothing_left(tmp_path)
    size, server.pause_after = partial.stat().st_size, None
    assert get()[0].read_bytes() == DATA
    assert server.requests[-2][:2] == ("/a9a.train.svm", f"bytes={size}-")


def test_addresses(server, get, tmp_path):
    """Only https, but for this machine; also after a redirect."""
    for url in ("http://example.org", "ftp://127.0.0.1", "file:///etc", "https://", "http://127.0.0.1.example.org"):
        with pytest.raises(DownloadError, match="only https URLs are allowed"):
            ts.download("a9a", tmp_path, base=url)
    for url in ("https://example.org/x", "http://localhost:80/x", "http://[::1]/x", "http://127.8.8.8/x"):
        assert transfer.allowed(url) == url
    for server.redirect, message in (
        ("http://example.org/a9a", "only https URLs are allowed"),
        ("file:///etc/passwd", "Redirection to url 'file:///etc/passwd' is not allowed"),
    ):
        with pytest.raises(DownloadError, match=message):
            get()
    assert nothing_left(tmp_path)


def test_asked_for_wrongly(tmp_path):
    """Unknown names and parts, sets nobody serves, folders that cannot be made."""
    with pytest.raises(UnknownNameError, match="did you mean 'w8a'"):
        ts.download("w8", tmp_path)
    with pytest.raises(InvalidParameterError, match="parts of the dataset 'a9a' must be 'train' or 'test', got 'tast'"):
        ts.download("a9a", tmp_path, parts=["tast"])
    with pytest.raises(DownloadError, match="'kddcup08' cannot be downloaded: the KDD Cup archive"):
        ts.download("kddcup08", tmp_path)
    make(tmp_path, "file")
    with pytest.raises(DownloadError, match=r"cannot write into the folder .*file: Not a directory"):
        ts.download("a9a", tmp_path / "file")
