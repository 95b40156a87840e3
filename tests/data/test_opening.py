"""Files read as the data of a model was: nothing to say again, nothing missing without a word."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp

import thinstream as ts
from thinstream.data.opening import infer_options, open_stream
from thinstream.data.options import Options
from thinstream.data.text.hashing import Hashing
from thinstream.errors import InvalidInputError, InvalidParameterError

OPTIONS = {
    "label": "spam",
    "weight": "w",
    "classes": ("no", "yes"),
    "text": ("subject",),
    "ignore": ("id",),
    "bits": 12,
}
OLD = "id,spam,w,subject,size,city\n" + "1,yes,1,free money,3,Oslo\n2,no,2,see you at noon,1,Rome\n" * 20


@pytest.fixture
def model(tmp_path):
    (tmp_path / "old.csv").write_text(OLD)
    return ts.AROW().fit_stream(ts.open_stream(tmp_path / "old.csv", **OPTIONS))


def predicted(model, path, **options):
    return np.concatenate(list(model.predict_stream(model.open_stream(path, **options)))).tolist()


def test_a_model_opens_files_as_its_own_were_opened(tmp_path, model):
    (tmp_path / "new.csv").write_text("city,more,subject,size\nOslo,x,free for you,3\nRome,y,at noon,1\n")
    assert predicted(model, tmp_path / "old.csv")[:2] == ["yes", "no"]
    assert predicted(model, tmp_path / "new.csv", labels=False) == ["yes", "no"]
    model.save(tmp_path / "m.ts")
    again = ts.load(tmp_path / "m.ts")
    assert predicted(again, tmp_path / "new.csv", labels=False) == ["yes", "no"]
    stream = again.open_stream(tmp_path / "old.csv")
    assert (stream.classes, stream.options.label, stream.options.weight) == (("no", "yes"), "spam", "w")
    with pytest.raises(InvalidParameterError, match="learned with bits 12; it cannot be used with bits 10"):
        again.open_stream(tmp_path / "new.csv", bits=10)
    with pytest.raises(InvalidParameterError, match="there is no option 'colour'"):
        again.open_stream(tmp_path / "new.csv", colour=3)


@pytest.mark.parametrize("saved", [False, True])
def test_missing_columns_are_named(tmp_path, model, saved):
    """They would count as empty cells: a typo in a header must not pass for data."""
    (tmp_path / "new.csv").write_text("subject,Size,City\nfree for you,3,Oslo\n")
    if saved:
        model.save(tmp_path / "m.ts")
        model = ts.load(tmp_path / "m.ts")
    with pytest.raises(
        InvalidInputError, match=r"lacks columns that the model has learned from: 'city', 'size'; it has 'subject'"
    ):
        predicted(model, tmp_path / "new.csv", labels=False)


def test_columns_are_those_of_all_files_learned_from(tmp_path, model):
    (tmp_path / "more.csv").write_text(OLD.replace("city", "town"))
    grown = model.merge(ts.AROW().fit_stream(ts.open_stream(tmp_path / "more.csv", **OPTIONS)))
    assert grown._model.reading["columns"] == ["city", "size", "subject", "town"]
    model.partial_fit_stream(ts.open_stream(tmp_path / "more.csv", **OPTIONS))
    assert model._model.reading["columns"] == ["city", "size", "subject", "town"]


def test_missing_columns_of_parquet_are_named(tmp_path):
    table = pa.table({"label": [1, 0], "age": [1.0, 2.0], "city": ["Oslo", "Rome"]})
    pa.parquet.write_table(table, tmp_path / "old.parquet")
    pa.parquet.write_table(table.drop_columns(["city", "label"]), tmp_path / "new.parquet")
    model = ts.AROW().fit_stream(ts.open_stream(tmp_path / "old.parquet"))
    assert predicted(model, tmp_path / "old.parquet", labels=False) == [1, 0]
    with pytest.raises(InvalidInputError, match=r"new\.parquet lacks columns that the model has learned from: 'city'"):
        predicted(model, tmp_path / "new.parquet", labels=False)
    (tmp_path / "new.csv").write_text("label\n1\n")
    with pytest.raises(InvalidInputError, match="lacks columns that the model has learned from: 'age', 'city'"):
        predicted(model, tmp_path / "new.csv")


@pytest.mark.parametrize("labels", ["spam", ["no", "yes"], np.array([0, 1]), 1, None])
def test_labels_are_there_or_not(tmp_path, labels):
    (tmp_path / "rows.svm").write_text("1 1:1\n")
    with pytest.raises(InvalidParameterError, match=r"labels must be True or False, got .*Use label="):
        ts.open_stream(tmp_path / "rows.svm", labels=labels)


@pytest.mark.parametrize("X", [np.eye(2), sp.csr_array(np.eye(2))])
def test_what_is_in_memory_is_no_file(X):
    with pytest.raises(InvalidInputError, match=r"paths must be file names, got a .*from_memory\(X, y\)"):
        ts.open_stream(X)
    frame = pytest.importorskip("pandas").DataFrame({"age": [1]})
    with pytest.raises(InvalidInputError, match=r"got a DataFrame\. Use thinstream"):
        ts.open_stream(frame)


CONTENTS = {
    "csv": "label,x,city\nyes,1,Oslo\nno,2,Rome\n",
    "tsv": "label\tx\tcity\nyes\t1\tOslo\nno\t2\tRome\n",
    "jsonl": '{"label": "yes", "x": 1}\n{"label": "no", "x": 2}\n',
    "vw": "1 |a x:1 y\n-1 |a x:2\n",
    "libsvm": "+1 3:0.5 7:1\n-1 2:1\n",
}


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("name", ["rows.data", "rows", "rows.data.gz"])
def test_files_of_unknown_ending_are_read_as_what_they_look_like(kind, name, tmp_path):
    path = tmp_path / name
    raw = CONTENTS[kind].encode() * 1
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    known = tmp_path / f"rows.{'svm' if kind == 'libsvm' else kind}"
    known.write_bytes(raw)
    one, other = ([*open_stream(each).batches()] for each in (path, known))
    assert [batch.indices.tolist() for batch in one] == [batch.indices.tolist() for batch in other]
    told = infer_options(path, Options()).messages
    expected = [] if kind == "libsvm" else [f"{path} looks like {kind}; pass --format if it is not"]
    assert [line for line in told if "looks like" in line] == expected
    with pytest.raises(InvalidInputError):
        list(open_stream(path, format="libsvm" if kind != "libsvm" else "jsonl").batches())


def test_a_folder_is_all_its_files(tmp_path):
    parts = tmp_path / "parts"
    (parts / "more").mkdir(parents=True)
    for k, name in enumerate(["a.csv", "b.csv", "more/c.csv"]):
        (parts / name).write_text(f"label,x\n{'yes' if k else 'no'},{k + 1}\n")
    (parts / "_SUCCESS").write_text("")
    (parts / ".a.csv.crc").write_text("x")
    stream = open_stream(parts)
    assert [Path(file).name for file in stream.files] == ["a.csv", "b.csv", "c.csv"]
    assert sum(map(len, stream.batches())) == 3
    (parts / "d.svm").write_text("1 1:1\n")
    with pytest.raises(InvalidInputError, match="all files must have the same format"):
        open_stream(parts)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="has no files"):
        open_stream(tmp_path / "empty")


def test_hive_folders_are_columns(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for year in (2023, 2024):
        for city in ("Oslo", "New%20York", "__HIVE_DEFAULT_PARTITION__"):
            folder = tmp_path / f"year={year}" / f"city={city}"
            folder.mkdir(parents=True)
            parquet.write_table(pa.table({"label": [0, 1], "x": [1.0, 2.0]}), folder / "part.parquet")
    stream = open_stream(tmp_path)
    assert stream.feature_columns == ["x", "year", "city"]
    rows = list(stream.batches())
    assert sum(map(len, rows)) == 12
    how = Hashing()
    first = rows[0]
    there = dict(zip(first.indices[: first.indptr[1]].tolist(), first.values.tolist(), strict=False))
    assert there[how.index("year")] == 2023.0
    assert there[how.index("New York", "city=")] == 1.0
    assert how.index("?", "city=") in rows[2].indices
    by_year = open_stream(tmp_path, label="year")
    assert by_year.classes == (2023, 2024)
    assert [int(batch.y[0]) for batch in by_year.batches()] == [-1, -1, -1, 1, 1, 1]
