"""Records of CSV, shuffled and dealt out."""

import csv
import io
import random

import pytest

from thinstream.data.shuffle import shuffle, split
from thinstream.errors import InvalidInputError


def table(rows):
    """Text of CSV with newlines, quotes and odd bytes in cells, and its records."""
    chosen = random.Random(1)
    records = [
        [str(k), chosen.choice(["plain", "two\nlines", 'a "b"\n\nc, d', "ÿþ\n", '5" disk'])] for k in range(rows)
    ]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["n", "text"], *records])
    return out.getvalue().replace('"5"" disk"', '5" disk'), records


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("memory", [1 << 12, 1 << 24])
def test_shuffle(tmp_path, memory):
    text, records = table(500)
    (tmp_path / "a.csv").write_text(text)
    assert shuffle(tmp_path / "a.csv", tmp_path / "b.csv", 3, memory, header=True, quoted=True) == 500
    head, *found = read(tmp_path / "b.csv")
    assert head == ["n", "text"]
    assert found != records
    assert sorted(found, key=lambda record: int(record[0])) == records


def test_split(tmp_path):
    text, records = table(100)
    (tmp_path / "a.csv").write_text(text)
    outs = [tmp_path / "one.csv", tmp_path / "two.csv"]
    assert split(tmp_path / "a.csv", outs, counts=[60], header=True, quoted=True) == [60, 40]
    assert [read(out)[1:] for out in outs] == [records[:60], records[60:]]


def test_bytes_that_are_no_text_stay(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'a,b\n1,"\xff\x02\n\xff"\n')
    shuffle(tmp_path / "a.csv", tmp_path / "b.csv", header=True, quoted=True)
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()


def test_a_quote_that_is_not_closed(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n1,"x\n2,y\n')
    with pytest.raises(InvalidInputError, match=r"a quote that opens a cell must be closed, got b'1,\"x'"):
        shuffle(tmp_path / "a.csv", tmp_path / "b.csv", quoted=True)
