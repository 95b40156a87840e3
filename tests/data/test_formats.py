"""Formats declare themselves: one file each, found by listing the folder."""

import subprocess
import sys

import pytest

from thinstream.cli.app import run
from thinstream.data import formats as folder
from thinstream.data.formats import format_of, formats
from thinstream.data.opening import open_stream
from thinstream.data.options import OPTIONS
from thinstream.errors import InvalidParameterError

TOY = '''
"""Lines of a sign and one feature number."""

import numpy as np

from thinstream.data.formats import Format, text_stream
from thinstream.data.text.protocol import Parsed, last_line_end


class Toy:
    dtype = "float32"

    def header(self, text):
        return 0

    def records(self, text):
        return last_line_end(text)

    def parse(self, text):
        lines = bytes(text).split()
        labels = np.array([1.0 if line[:1] == b"+" else -1.0 for line in lines])
        numbers = np.array([int(line[1:]) for line in lines], np.int32)
        width, ones = int(numbers.max(initial=-1)) + 1, np.ones(len(lines), np.float32)
        return Parsed(labels, np.arange(len(lines) + 1), numbers, ones, width, 1.0, len(lines), len(text))


def open_toy(known, files, options):
    return text_stream(known, files, Toy(), options)


FORMATS = (Format("toy", (".toy",), (), open_toy, lines=True),)
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    place = tmp_path / "formats"
    place.mkdir()
    (place / "toy.py").write_text(TOY)
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(place)])
    formats.cache_clear()
    yield
    formats.cache_clear()
    sys.modules.pop("thinstream.data.formats.toy", None)


def test_a_format_is_one_file(toy, tmp_path, capsys):
    path = tmp_path / "a.toy"
    path.write_text("+3\n-1\n+3\n")
    [batch] = open_stream(path).batches()
    assert batch.y.tolist() == [1, -1, 1]
    assert batch.indices.tolist() == [3, 1, 3]
    assert run(["train", str(path), "-q", "-m", str(tmp_path / "m.ts")]) == 0
    assert run(["train", "--help"]) == 0
    assert "toy" in capsys.readouterr().out
    with pytest.raises(InvalidParameterError, match=r"bits is an option of the format .* got 4 for toy"):
        open_stream(path, bits=4)


def test_declarations_name_options_there_are_and_no_ending_twice():
    assert {name for known in formats().values() for name in known.options} <= set(OPTIONS)
    endings = [ending for known in formats().values() for ending in known.endings]
    assert len(set(endings)) == len(endings)
    assert all(format_of(f"a{ending.upper()}.gz") == k.name for k in formats().values() for ending in k.endings)


def test_an_unknown_format_is_refused(tmp_path):
    (tmp_path / "a").write_text("+1 1:1\n")
    with pytest.raises(InvalidParameterError, match=r"format must be 'libsvm', 'arrow', .* got 'xls'"):
        open_stream(tmp_path / "a", "xls")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("from thinstream.data.formats import formats; formats()", ("numpy", "numba")),
        (
            "import thinstream as ts; ts.open_stream('a.svm')",
            (
                "thinstream.data.text.csv",
                "thinstream.data.text.hashing",
                "thinstream.data.tables.arrow",
            ),
        ),
    ],
)
def test_only_what_is_read_is_imported(tmp_path, code, absent):
    (tmp_path / "a.svm").write_text("+1 1:1\n")
    script = f"{code}; import sys; print([name for name in {absent} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("content", ["", "FORMATS = [1]\n", "FORMATS = ('toy',)\n"])
def test_a_file_that_declares_no_formats_is_named(tmp_path, monkeypatch, content):
    (tmp_path / "unfinished.py").write_text(content)
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(tmp_path)])
    formats.cache_clear()
    try:
        with pytest.raises(
            InvalidParameterError, match=r"unfinished\.py: a module in data/formats/ must declare FORMATS"
        ):
            formats()
    finally:
        formats.cache_clear()
        sys.modules.pop("thinstream.data.formats.unfinished", None)
