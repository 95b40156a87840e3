"""Files read as the data of a model was: nothing to say again, nothing missing without a word."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp

import thinstream as ts
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
    with pytest.raises(InvalidParameterError, match="learned with bits 12; it cannot be used with 10"):
        again.open_stream(tmp_path / "new.csv", bits=10)
    with pytest.raises(InvalidParameterError, match="no option is called 'colour'"):
        again.open_stream(tmp_path / "new.csv", colour=3)


@pytest.mark.parametrize("saved", [False, True])
def test_missing_columns_are_named(tmp_path, model, saved):
    """They would count as empty cells: a typo in a header must not pass for data."""
    (tmp_path / "new.csv").write_text("subject,Size,City\nfree for you,3,Oslo\n")
    if saved:
        model.save(tmp_path / "m.ts")
        model = ts.load(tmp_path / "m.ts")
    with pytest.raises(
        InvalidInputError, match=r"learned from columns that are missing: 'city', 'size', got 'subject'"
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
    with pytest.raises(InvalidInputError, match=r"new\.parquet: the model has learned from columns .* missing: 'city'"):
        predicted(model, tmp_path / "new.parquet", labels=False)
    (tmp_path / "new.csv").write_text("label\n1\n")
    with pytest.raises(InvalidInputError, match="learned from columns that are missing: 'age', 'city'"):
        predicted(model, tmp_path / "new.csv")


@pytest.mark.parametrize("labels", ["spam", ["no", "yes"], np.array([0, 1]), 1, None])
def test_labels_are_there_or_not(tmp_path, labels):
    (tmp_path / "rows.svm").write_text("1 1:1\n")
    with pytest.raises(InvalidParameterError, match=r"labels must be True or False, got .*; label= names the column"):
        ts.open_stream(tmp_path / "rows.svm", labels=labels)


@pytest.mark.parametrize("X", [np.eye(2), sp.csr_array(np.eye(2))])
def test_what_is_in_memory_is_no_file(X):
    with pytest.raises(InvalidInputError, match=r"paths must be names of files, got a .*from_memory\(X, y\)"):
        ts.open_stream(X)
    frame = pytest.importorskip("pandas").DataFrame({"age": [1]})
    with pytest.raises(InvalidInputError, match="got a DataFrame; what is in memory"):
        ts.open_stream(frame)
