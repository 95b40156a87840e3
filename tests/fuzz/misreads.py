"""Random inputs, read by the compiled readers and by naive ones: ``python -m tests.fuzz.misreads --inputs 337000``.

Each input is a small file, a list of dicts or a frame. The naive readers are plain Python, written from the rules. The
exit status is 1 if any input is misread: it gives other rows, or is an error for only one of the two readers.
"""

import argparse
import json
import random
import time
from itertools import cycle

import numpy as np

from tests.data import naive_cells, naive_libsvm, naive_texts, test_vw
from tests.data.formats import as_text, hashed, rows_of
from tests.data.naive_cells import Refused
from thinstream.data.in_memory import frame_columns
from thinstream.data.options import MISSING
from thinstream.data.tables.columns import Table
from thinstream.data.text.csv import CSV
from thinstream.data.text.jsonl import JSONLines
from thinstream.data.text.libsvm import Libsvm
from thinstream.data.text.vw import VW
from thinstream.errors import InvalidInputError

#: Columns by their names, and options that give them their roles. The label is y, and the weight is w.
ROLES = {"n": "numeric", "c": "categorical", "d": "dates", "t": "text", "s": "ignore"}
NAMES = [*ROLES, "a", "b=b", "ü"]
WORDS = [
    "", " ", "NA", " N/A", "NaN", "nan", "null", "NULL", "None", "?", "na", "true", "True", "FALSE", "tRUE", "inf",
    "-Infinity", "1e999", "1e16", "0x10", "1_000", "007", "+.5", "5.", ".", "-", "1e", " 5 ", "17297e88", "-0",
    "2024-05-17", "2024-02-30", "1900-02-29", "2000-02-29", "2024-05-17T13:05", "2024-05-17 13:05:59.25Z",
    "2024-05-17 13:05:61", "2024-05-17T23:59+02:00", "2024-05-17 GET /", "17.05.2024", "free, FREE offer", "a=b",
    'say "hi"', "größe", "\u2028", "x;y", "tab\there", "line\nbreak", "\\", "日本", "😀",
]  # fmt: skip
#: Cells that a column with a role usually has: anything else is an error, after which a file is not read.
USUAL = {
    "n": [0, 1, -2.5, 1e-300, True, False, "NA", "", " 7 ", "true", None],
    "d": ["2024-05-17", "2000-02-29", "2024-05-17T13:05", "2024-05-17 13:05:59.25Z", "NA", "", None],
    "t": ["free, FREE offer", "", "NA", "größe 日本 x_1", "It's 2.5", "2024-05-17 GET /", None],
}
NUMBERS = [0, 1, -1, 3, 0.5, -2.25, 1e-300, 1e15, 0.1, -0.0, 3.0, 1e16, 12345678901234567890]
DECIMALS = ["0", ".5", "1e-3", "+2", "0.1234567890123456789012345"]
CSV_PIECES = [",", ",", '"', '""', "\n", "\n", "\r\n", "\r", "1", "-2.5", "x", "NA", " ", "2024-05-17", "1e999", "="]
JSON_PIECES = [b"", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"0", b"e", b"\xff", b" "]
SVM_PIECES = [
    "1",
    "-1",
    " ",
    " ",
    " ",
    ":",
    ":",
    "\n",
    "\n",
    "\r\n",
    "2.5",
    "3:1",
    "7:0.25",
    "qid:4",
    "#",
    "e",
    "+",
    "1e9",
]


def options(names):
    """The roles of these columns, as options of a reader."""
    roles = {"label": "y", "weight": "w" if "w" in names else None}
    return roles | {role: (name,) for name, role in ROLES.items() if name in names}


OPTIONS = options([*NAMES, "w"])


def number(draw):
    kind = draw.random()
    if kind < 0.4:
        return draw.choice(NUMBERS[:-2] if kind < 0.38 else NUMBERS)
    return draw.randint(-999, 999) if kind < 0.7 else draw.uniform(-1, 1) * 10.0 ** draw.randint(-12, 12)


def word(draw):
    return draw.choice(WORDS) if draw.random() < 0.6 else "".join(draw.choices('ab1é,"\n -.=_', k=draw.randint(1, 7)))


def value(draw, depth=0):
    """A value of JSON."""
    kind = draw.random()
    if kind < 0.35:
        return number(draw)
    if kind < 0.75 or depth == 2:
        return word(draw)
    if kind < 0.85:
        return draw.choice([None, True, False])
    parts = [value(draw, 2 if kind < 0.92 else depth + 1) for _ in range(draw.randint(0, 3))]
    return parts if kind < 0.92 else dict(zip(draw.sample(["n", "t", "x", "y.z"], len(parts)), parts))


def cell(draw, name):
    """A value that suits the column most of the time."""
    usual = USUAL.get(name) if draw.random() < 0.97 else None
    if usual is None and name == "c" and draw.random() < 0.97:
        return number(draw) if draw.random() < 0.5 else word(draw)
    return draw.choice(usual) if usual else value(draw)


def row_of(label, weight, features):
    """The row of these features; they are refused if their sums are too large."""
    row = hashed(features)
    if any(abs(amount) > 1.0001e15 for amount in row.values()):
        raise Refused(features)
    return label, weight, row


def difference(found, failed, naive):
    """What differs between the rows of a reader, behind which it may have failed, and those of naive functions."""
    wanted, error = [], None
    for row in naive:
        try:
            wanted.append(row())
        except Refused as refused:
            error = refused
            break
    if found != wanted:
        return f"{found}, must be {wanted}"
    return f"an error is {failed!r}, must be {error!r}" if (failed is None) != (error is None) else None


def csv_file(draw):
    """Cells in quotes, where they need them or anyway, or any pieces of CSV."""
    missing, delimiter, newline = draw.choice(MISSING), draw.choice(",\t;|"), draw.choice(["\n", "\r\n"])
    order = draw.sample([*NAMES, "y", "w"], len(NAMES) + 2) if draw.random() < 0.8 else draw.sample(["y", "a", "c"], 3)

    def written(name):
        cells = {"y": ["", "1", "-1", " 0.5 "], "w": ["", "0", "2", "1e-3"]}.get(name)
        found = draw.choice(cells) if cells else cell(draw, name)
        found = "" if found is None else found if isinstance(found, str) else json.dumps(found)
        needs = any(letter in found for letter in f'{delimiter}"\r\n')
        return '"' + found.replace('"', '""') + '"' if needs or draw.random() < 0.2 else found

    if len(order) > 3:
        lines = [delimiter.join(map(written, order)) for _ in range(draw.randint(1, 3))]
        body = newline.join(lines) + (newline if draw.random() < 0.8 else "")
    else:
        body = "".join(draw.choices(CSV_PIECES, k=draw.randint(1, 16))).replace(",", delimiter)
    form = CSV(missing=missing, delimiter=delimiter, **options(order))
    form.header(as_text((delimiter.join(order) + "\n").encode()))
    parsed = form.parse(as_text(body.encode()))

    def row(record):
        if record is None or len(record) != len(order):
            raise Refused(record)
        cells = dict(zip(order, record))
        label, weight = ((naive_cells.number_in(text), text) for text in (cells["y"], cells.get("w", "")))
        if (label[0] is None and label[1]) or (weight[1] and (weight[0] is None or weight[0] < 0)):
            raise Refused(record)
        pairs = [(name, text) for name, text in cells.items() if name not in ("y", "w")]
        found = [f for name, text in pairs for f in naive_cells.features(name, ROLES.get(name, "auto"), text, missing)]
        return row_of(label[0], weight[0] if weight[1] else 1.0, found)

    records = [lambda record=record: row(record) for record in naive_cells.csv_records(body, delimiter)]
    return body, difference([*rows_of(parsed)], parsed.error, records)


def records_of(draw, n):
    """Objects, sometimes with the same keys."""
    names = draw.sample(NAMES, draw.randint(1, len(NAMES)))
    records = []
    for _ in range(n):
        if n < 8 and draw.random() < 0.5:
            names = draw.sample(NAMES, draw.randint(0, len(NAMES)))
        records.append({name: cell(draw, name) for name in names})
    return records


def object_rows(records, missing, columns, written):
    """A naive function for each object."""

    def row(record):
        label, weight = record.get("y"), record.get("w")
        label = (1.0 if label else -1.0) if isinstance(label, bool) else label
        rest = {name: found for name, found in record.items() if name not in ("y", "w")}
        features = naive_cells.object_features(rest, ROLES, missing, written)
        for name in columns:
            if name not in record and ROLES.get(name) not in ("text", "ignore"):
                features += naive_cells.features(name, ROLES.get(name, "auto"), None, missing)
        return row_of(label, 1.0 if weight is None else weight, features)

    return [lambda record=record: row(record) for record in records]


def json_file(draw):
    """Objects, by the compiled parser or by Python."""
    missing, columns = draw.choice(MISSING), draw.sample(NAMES, 3) if draw.random() < 0.3 else ()
    records = records_of(draw, draw.randint(1, 3))
    for record in records:
        record |= {"y": draw.choice([None, True, False, 0, 1, -1, 2.5])} if draw.random() < 0.8 else {}
        record |= {"w": draw.choice([None, 0, 2.5])} if draw.random() < 0.2 else {}
    ascii_only, separators = draw.random() < 0.5, (draw.choice([",", ", ", " ,\t"]), draw.choice([":", " : "]))
    data = "".join(json.dumps(record, ensure_ascii=ascii_only, separators=separators) + "\n" for record in records)
    form = JSONLines(missing=missing, columns=columns, **OPTIONS)
    parsed = (naive_texts.PlainRoad(form) if draw.random() < 0.2 else form).parse(as_text(data.encode()))
    rows = object_rows(records, missing, columns, lambda v: str(v) if isinstance(v, bool) else json.dumps(v))
    return data, difference([*rows_of(parsed)], parsed.error, rows)


def json_pieces(draw):
    """Lines of JSON with a change, against the reader of Python's json module."""
    data = bytearray("".join(json.dumps(record) + "\n" for record in records_of(draw, 2)).encode())
    for _ in range(draw.randint(1, 2)):
        at = draw.randrange(len(data))
        data[at : at + draw.randint(0, 2)] = draw.choice(JSON_PIECES)
    form = JSONLines(**OPTIONS)
    return bytes(data), naive_texts.json_disagreement(form.parse(as_text(bytes(data))), bytes(data), form)


def category(number):
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(number)


def in_memory(read, rows):
    """What is misread of a table in memory, of which nothing is read if a part of it is an error."""
    try:
        batch = read()
    except InvalidInputError as error:
        return difference([], error, [row for row in rows if _is_refused(row)])
    bounds = zip(batch.indptr[:-1], batch.indptr[1:])
    features = [dict(zip(batch.indices[a:b].tolist(), batch.values[a:b].tolist())) for a, b in bounds]
    return difference([(None, 1.0, row) for row in features], None, rows)


def _is_refused(row):
    try:
        row()
    except Refused:
        return True
    return False


def dicts(draw):
    """Dicts, one by one or column by column."""
    missing, columns = draw.choice(MISSING), draw.sample(NAMES, 3) if draw.random() < 0.3 else ()
    records = records_of(draw, draw.choice([1, 2, 9]))
    table = Table(missing=missing, columns=columns, **OPTIONS)
    rows = object_rows(records, missing, columns, category)
    return records, in_memory(lambda: table.of_records(records), rows)


def frame(draw):
    """A frame of pandas or polars, with columns of numbers, words and truth."""
    import pandas as pd
    import polars as pl

    n, missing, columns = draw.randint(1, 6), draw.choice(MISSING), {}
    kinds = {
        "float64": (pl.Float64, lambda: draw.choice([0.0, 1.0, -2.5, 0.1, 1e15, 3.0])),
        "int64": (pl.Int64, lambda: draw.randint(-99, 99)),
        "bool": (pl.Boolean, lambda: draw.random() < 0.5),
        "object": (pl.String, lambda: word(draw)),
    }
    in_pandas = draw.random() < 0.5
    for name in draw.sample(["n", "c", "t", "s", "a", "ü"], draw.randint(1, 4)):
        kind = draw.choice({"t": ["object"], "n": ["float64", "int64", "bool"]}.get(name, [*kinds]))
        cells = [kinds[kind][1]() for _ in range(n)]
        if kind in ("float64", "object") and draw.random() < 0.5:
            cells[draw.randrange(n)] = float("nan") if in_pandas and kind == "float64" else None
        columns[name] = cells, kind
    if in_pandas:
        made = pd.DataFrame({name: pd.Series(cells, dtype=kind) for name, (cells, kind) in columns.items()})
    else:
        made = pl.DataFrame({name: pl.Series(cells, dtype=kinds[kind][0]) for name, (cells, kind) in columns.items()})
    records = [{name: cells[k] for name, (cells, _) in columns.items()} for k in range(n)]
    table = Table(missing=missing, **OPTIONS)
    rows = object_rows(records, missing, (), category)
    return records, in_memory(lambda: table.rows(*table.of_columns(frame_columns(made, 0, n), n)), rows)


def vw_file(draw):
    """Namespaces with scales, labels, importances and tags."""

    def decimal():
        return draw.choice([*DECIMALS, repr(draw.uniform(-1e6, 1e6)), str(draw.randint(-20, 20))])

    def name():
        return "".join(draw.choices("ab1é^=.#'", k=draw.randint(1, 5)))

    records = []
    for _ in range(draw.randint(1, 4)):
        head = [decimal(), draw.choice(["0", "1", "2.5", "1e2"]), decimal()][: draw.randint(0, 3)]
        spaces = [
            (
                draw.choice(["", name()]),
                draw.choice([None, decimal()]),
                [(name(), draw.choice([None, decimal()])) for _ in range(draw.randint(0, 6))],
            )
            for _ in range(draw.randint(1, 3))
        ]
        records.append({"head": head, "tag": draw.choice(["", "'", "'t", "t7", "'ü"]), "spaces": spaces})
    blank = draw.choice([" ", "  ", "\t", " \t "])
    data = draw.choice(["\n", "\r\n", "\n\n", "\n \t\r\n"]).join(test_vw.written(record, blank) for record in records)
    parsed = VW().parse(as_text(data.encode()))
    rows = [lambda record=record: test_vw.expected(record) for record in records]
    return data, difference([*rows_of(parsed)], parsed.error, rows)


def libsvm_file(draw):
    """Any pieces of libsvm."""
    data = "".join(draw.choices(SVM_PIECES, k=draw.randint(1, 24))).encode()
    form = Libsvm(zero_based=draw.random() < 0.5)
    return data, naive_libsvm.disagreement(form.parse(as_text(data)), data, form)


READERS = {
    "csv": csv_file,
    "jsonl": json_file,
    "jsonl, changed": json_pieces,
    "dicts": dicts,
    "frames": frame,
    "vw": vw_file,
    "libsvm": libsvm_file,
}


def read_inputs(count, seed, readers=READERS):
    """Yield (reader, whether it came to rows, input, what is misread) of N inputs, of one reader after another."""
    for k, (name, reader) in zip(range(count), cycle(readers.items())):
        draw = random.Random(f"{seed} {k}")
        with np.errstate(all="ignore"):
            yield name, *reader(draw)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.misreads", description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    counts, misread, start = dict.fromkeys(READERS, 0), 0, time.monotonic()
    for name, given, wrong in read_inputs(options.inputs, options.seed):
        counts[name] += 1
        if wrong is not None:
            misread += 1
            if misread <= 20:
                print(f"{name}: {given!r}\n    {wrong}", flush=True)
    shown = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    print(f"{options.inputs:,} inputs in {time.monotonic() - start:.0f} s: {misread:,} misread ({shown})")
    return int(misread > 0)


if __name__ == "__main__":
    raise SystemExit(main())
