"""Training from caches: the same bytes, and nothing stale or damaged."""

import os
import time
from pathlib import Path

import pytest

from tests.cli.commands import ROWS
from thinstream.models.file import read


def test_training_from_a_cache_gives_the_same_bytes(data, model, thin):
    pytest.importorskip("pyarrow")
    assert f"wrote {ROWS} rows to c.cache" in thin("convert", data, "-o", "c.cache").errors
    thin("train", "c.cache", "-m", "c.ts", "-q")
    thin("train", data, "--cache", "-m", "k.ts", "-q")
    thin("train", data, "--cache", "-m", "k2.ts", "-q")
    for name in ("c.ts", "k.ts", "k2.ts"):
        assert Path(name).read_bytes() == Path(model).read_bytes()


@pytest.mark.parametrize("place", [0.0, 0.5, 0.99])
def test_damaged_caches_are_refused_or_written_again(data, model, thin, place):
    pytest.importorskip("pyarrow")
    thin("train", data, "--cache", "-q")
    raw = bytearray(Path("d.svm.cache").read_bytes())
    raw[int(place * len(raw))] ^= 0xFF
    Path("d.svm.cache").write_bytes(raw)
    assert "d.svm.cache is" in thin("train", "d.svm.cache", "-q", code=1).errors
    thin("train", data, "--cache", "-m", "k.ts", "-q")
    assert Path("k.ts").read_bytes() == Path(model).read_bytes()
    thin("train", "d.svm.cache", "-q")


def test_a_cache_is_written_again_when_its_source_or_reading_changes(there, thin):
    pytest.importorskip("pyarrow")
    path = Path("d.jsonl")
    path.write_text('{"label": 1, "w": 3, "a": 1}\n{"label": 0, "w": 1, "b": 1}\n' * 2000)
    thin("train", path, "--cache", "-q", "-m", "1.ts")
    thin("train", path, "--cache", "-q", "-m", "2.ts", "--weight", "w")
    thin("train", path, "-q", "-m", "3.ts", "--weight", "w", "--names", "0")  # which a cache does not have
    assert Path("2.ts").read_bytes() == Path("3.ts").read_bytes() != Path("1.ts").read_bytes()
    text = path.read_text()
    path.write_text(text[:-1000].rpartition("\n")[0] + "\n")  # far from its head
    thin("train", path, "--cache", "-q", "-m", "4.ts")
    assert read("4.ts").learner.t < 4000
    replaced = path.read_text()
    path.write_text(replaced[:-30] + replaced[-30:].replace('"b": 1', '"c": 1'))  # not even in its size
    os.utime(path, ns=(time.time_ns() + 10**10,) * 2)
    thin("train", path, "--cache", "-q", "-m", "5.ts")
    thin("train", path, "-q", "-m", "6.ts", "--names", "0")
    assert Path("5.ts").read_bytes() == Path("6.ts").read_bytes()


def test_a_cache_tells_of_records_left_out(there, thin):
    pytest.importorskip("pyarrow")
    Path("b.svm").write_text("1 1:1\n1 x\n-1 2:1\n")
    said = thin("train", "b.svm", "--cache", "--on-error", "skip", "--passes", "2")
    assert "skipped 1 invalid record, the first: b.svm, line 2" in said.errors


def test_options_a_cache_contradicts(there, thin):
    pytest.importorskip("pyarrow")
    Path("t.vw").write_text("1 |f a b\n-1 |f c\n")
    thin("convert", "t.vw", "-o", "t.cache", "--bits", "4")
    assert "t.cache was made with bits=4 and cannot be read with bits=5" in (
        thin("train", "t.cache", "--bits", "5", code=2).errors
    )
    thin("train", "t.cache", "--bits", "4", "--normalize", "l2", "-m", "c.ts", "-q")
    thin("train", "t.vw", "--bits", "4", "--normalize", "l2", "-m", "t.ts", "-q", "--names", "0")
    assert Path("c.ts").read_bytes() == Path("t.ts").read_bytes()
    error = thin("train", "t.cache", "--dtype", "float64", code=1).errors
    assert "t.cache holds float32 values, but the model needs float64" in error
    assert "standard input and pipes cannot have one" in thin("train", "-", "--cache", code=2).errors
    assert (
        "feature names cannot be collected from it" in thin("train", "t.vw", "--cache", "--names", "3", code=2).errors
    )
