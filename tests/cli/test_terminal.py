"""Output that is closed, full, left by its reader or of another encoding costs no model; names steer no terminal."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import finished, process
from thinstream.cli.terminal import printable

FULL = Path("/dev/full")


def test_an_encoding_without_the_characters(data, model, thin, monkeypatch):
    nothing_called = ("train", data, "-a", "adarda", "--threshold", "1e6")  # no row: its precision is undefined
    thin(*nothing_called, "-m", model, "-q")
    for encoding in ("latin-1", "ascii"):
        monkeypatch.setenv("PYTHONIOENCODING", encoding)
        child = process(*nothing_called, "-m", "e.ts")
        out, errors = child.communicate(timeout=60)
        assert (child.returncode, errors) == (0, b"")
        assert rb"\u2013" in out  # the dash of what is undefined
        assert Path("e.ts").read_bytes() == Path(model).read_bytes()


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1), (0, 1, 2)])
def test_closed_streams(data, model, closed):
    def close():
        for number in closed:
            os.close(number)

    code, _, _ = finished(process("train", data, "-m", "c.ts", preexec_fn=close))
    assert code == 0
    assert Path("c.ts").read_bytes() == Path(model).read_bytes()
    assert sorted(os.listdir()) == ["c.ts", "d.svm", "m.ts"]


def test_a_reader_that_leaves_does_not_cost_the_model(data, model):
    child = process("train", "-", "-m", "r.ts", stdin=subprocess.PIPE)
    child.stdout.close()
    child.stdin.write(Path(data).read_bytes())
    child.stdin.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert (child.wait(60), errors) == (141, b"")
    assert Path("r.ts").read_bytes() == Path(model).read_bytes()


def test_without_a_model_it_ends_with_its_reader(data):
    child = process("train", "-", stdin=subprocess.PIPE)
    child.stdout.close()
    child.stdin.write(4 * Path(data).read_bytes())  # enough for a line of the table
    child.stdin.flush()  # and more could come
    assert child.wait(60) == 141
    child.stdin.close()
    assert child.stderr.read() == b""
    child.stderr.close()


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command", [["train"], ["train", "--json"], ["tune", "-a", "fsol", "-g", "eta=0.5,1"], ["path", "-a", "fsol"]]
)
def test_a_full_disk_behind_the_output(data, command):
    with FULL.open("wb") as full:
        code, _, errors = finished(process(*command, data, "-m", "f.ts", stdout=full))
    assert (code, errors.splitlines()[-1]) == (1, "thinstream: standard output: No space left on device")
    again = finished(process("inspect", "f.ts"))
    assert again[0] == 0


def test_names_steer_no_terminal(there, thin):
    """Those of features, of classes, and of files."""
    red = "\x1b[31mred\x07\u202e"
    Path("d.csv").write_text(f'label,"{red}","new\nline"\n' + f"a{red},1,2\nb,-1,0.5\n" * 20)
    options = ["--label", "label", "--classes", f"b,a{red}"]
    out = thin("train", "d.csv", *options, "--names", "100", "-m", "m.ts")
    out += thin("inspect", "m.ts") + thin("evaluate", "d.csv", "-m", "m.ts")
    out += thin("train", "d.csv", "--label", "label", "--classes", f"b,a{red},c").errors
    out += thin("train", f"{red}.svm", code=1).errors + thin("inspect", f"{red}.ts", code=1).errors
    assert not set(out) & set("\x1b\x07\u202e")
    assert r"\x1b[31mred\x07\u202e" in out
    assert any(line.startswith(r"new\nline") for line in out.splitlines())


def test_what_is_printable_stays():
    assert printable("Größe α – 1") == "Größe α – 1"
    assert printable("a\tb\r\n\udc80") == r"a\tb\r\n\udc80"
    assert printable("two\nlines", keep="\n") == "two\nlines"
