"""One table of cases, `cells.json`, for every reader: a cell, the role of its column, and the features it gives.

A case has a column ("c" by default), a role, the cell in CSV (``csv``), the same cell as values of JSON (``values``)
and features (namespace, name, value), or a part of the error message.
"""

import json
from collections import Counter
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.data.formats import as_text
from tests.data.naive_texts import PlainRoad
from tests.data.test_hashing import naive
from thinstream.data import Hashing, Numbering, from_memory
from thinstream.data.in_memory import batch_like
from thinstream.data.options import ReadingSpec
from thinstream.data.tables.arrow import ArrowTables
from thinstream.data.text.csv import CSV
from thinstream.data.text.jsonl import JSONLines
from thinstream.data.text.vw import VW
from thinstream.errors import InvalidInputError

CASES = json.loads(Path(__file__).with_name("cells.json").read_text("utf-8"))
BITS = 22


def roles_of(case):
    """The options that give the column its role."""
    return {} if case["role"] == "auto" else {case["role"]: [case.get("column", "c")]}


def expected_row(features, binary=False):
    """Numbers and values of features, by the naive hash."""
    row = Counter()
    for space, name, value in features:
        index = naive(name.encode(), naive(space.encode(), 0)) % 2**BITS
        row[index] = value if binary else row[index] + value
    return dict(row)


def options_of(case):
    """The options of a format."""
    return {"missing": case.get("missing", "indicator"), "binary": case.get("binary", False), **roles_of(case)}


def parsed(form, data):
    rows = form.parse(as_text(data))
    if rows.error is not None:
        raise InvalidInputError(rows.error.message)
    return rows


def in_csv(case, cell):
    quoted = '"' + case.get("column", "c").replace('"', '""') + '"'
    form = CSV(label=None, **options_of(case))
    head = f"{quoted},other\n".encode()
    form.header(as_text(head))
    return parsed(form, f"{cell},0\n".encode())


def in_json_lines(case, value, road=lambda form: form):
    line = json.dumps({case.get("column", "c"): value}).encode() + b"\n"
    return parsed(road(JSONLines(label=None, **options_of(case))), line)


def in_python(case, value):
    return in_json_lines(case, value, PlainRoad)


def in_dicts(case, value):
    return next(iter(from_memory([{case.get("column", "c"): value}], hasher=Numbering(), **options_of(case)).batches()))


def in_many_dicts(case, value):
    """Read column by column."""
    rows = [{case.get("column", "c"): value}] * 20
    [batch] = from_memory(rows, hasher=Numbering(), **options_of(case)).batches()
    return batch.until(1)


def like_a_model(case, value):
    roles = roles_of(case)
    space = {name: names for name, names in roles.items() if name in ("text", "categorical")}
    space |= {"binary": True} if case.get("binary") else {}
    reading = {name: names for name, names in roles.items() if name in ("numeric", "dates")}
    spec = ReadingSpec(
        {"hashing": Hashing().as_dict(), **space}, {"missing": case.get("missing", "indicator"), **reading}
    )
    return batch_like(spec, [{case.get("column", "c"): value}])


def from_frame(case, frame):
    [batch] = from_memory(frame, hasher=Numbering(), look=0, **options_of(case)).batches()
    return batch


def in_pandas(case, value):
    return from_frame(case, pd.DataFrame({case.get("column", "c"): [value]}))


def in_pandas_categories(case, value):
    return from_frame(case, pd.DataFrame({case.get("column", "c"): pd.Categorical([value])}))


def in_polars(case, value):
    return from_frame(case, pl.DataFrame({case.get("column", "c"): [value]}))


def arrow_rows(case, column):
    name = case.get("column", "c")
    table = pa.table({name: column})
    stream = ArrowTables([(lambda: table, 1)], [name], label=None, hasher=Numbering(), **options_of(case))
    [batch] = stream.batches()
    return batch


def in_arrow(case, value):
    return arrow_rows(case, pa.array([value]))


def in_arrow_dictionaries(case, value):
    return arrow_rows(case, pa.array([value]).dictionary_encode())


OBJECTS = [in_json_lines, in_python, in_dicts, in_many_dicts, like_a_model]
TABLES = [in_pandas, in_polars, in_arrow]
WORDS = [in_pandas_categories, in_arrow_dictionaries]


def runs():
    """(case, reader, cell) of all readers that can have such a cell."""
    for number, case in enumerate(CASES):
        if "csv" in case:
            yield number, in_csv, case["csv"]
        for value in case.get("values", ()):
            for reader in OBJECTS:
                yield number, reader, value
            if not isinstance(value, list | dict):
                for reader in TABLES:
                    yield number, reader, value
            if isinstance(value, str):
                for reader in WORDS:
                    yield number, reader, value


@pytest.mark.parametrize(
    ("number", "reader", "cell"), [pytest.param(*run, id=f"{run[0]}-{run[1].__name__}-{run[2]!r}") for run in runs()]
)
def test_features_of_cells(number, reader, cell):
    case = CASES[number]
    if isinstance(case["features"], str):
        with pytest.raises(InvalidInputError, match=case["features"]):
            reader(case, cell)
        return
    rows = reader(case, cell)
    assert dict(zip(rows.indices.tolist(), rows.values.tolist())) == expected_row(
        case["features"], case.get("binary", False)
    )


@pytest.mark.parametrize("number", [k for k, case in enumerate(CASES) if not isinstance(case["features"], str)])
def test_the_same_features_in_vw(number):
    features = [feature for feature in CASES[number]["features"] if not set(feature[0] + feature[1]) & set(' :|\t"')]
    line = "1 " + " ".join(f"|{space} {name}:{value}" for space, name, value in features if name)
    rows = VW(binary=CASES[number].get("binary", False)).parse(as_text(f"{line} |\n".encode()))
    assert rows.error is None
    features = [feature for feature in features if feature[1]]
    wanted = expected_row(features, CASES[number].get("binary", False))
    assert dict(zip(rows.indices.tolist(), rows.values.tolist())) == wanted


def test_duplicate_features_are_summed_in_every_reader():
    """Or the first counts, with binary: whether a row repeats a word, or two cells give the same feature."""
    row = {"a.b": 2.0, "a": {"b": 3.0}}
    for binary, wanted in ((False, 5.0), (True, 2.0)):
        for reader in (in_json_lines, in_python, in_dicts, in_many_dicts, like_a_model):
            case = {"role": "auto", "binary": binary, "column": "x"}
            rows = reader(case, row)
            assert rows.values.tolist() == [wanted]


def test_columns_of_one_name_are_refused_in_every_table():
    frame = pd.DataFrame([[1.0, 2.0]], columns=["c", "c"])
    with pytest.raises(InvalidInputError, match="columns must have different names, got 'c' twice"):
        from_frame({"role": "auto"}, frame)
    with pytest.raises(InvalidInputError, match="columns of a CSV file must have different names, got 'c' twice"):
        CSV(label=None).header(as_text(b"c,c\n"))
    with pytest.raises(InvalidInputError, match="several columns with the same name"):
        next(iter(ArrowTables([], ["c", "c"], label=None, hasher=Numbering()).batches()))
    with pytest.raises(InvalidInputError, match='a key may occur only once in an object, got "c" twice'):
        parsed(JSONLines(label=None), b'{"c": 1, "c": 2}\n')
