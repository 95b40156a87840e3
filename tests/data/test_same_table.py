"""The same table in any format: the same model, which reads all of them."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import thinstream as ts
from thinstream.data import from_memory
from thinstream.data.column_inference import declared_in
from thinstream.data.opening import infer_options, open_stream
from thinstream.data.options import Options
from thinstream.data.text.hashing import Numbering
from thinstream.errors import InvalidInputError

ROWS = 150
FILES = ["t.csv", "t.tsv", "t.jsonl", "t.parquet", "t.arrow"]
FRAMES = ["pandas", "polars"]


def table():
    """Numbers, words, dates as text, times, sentences, truth, and cells that say nothing."""
    rng = np.random.default_rng(5)
    rows = []
    for k in range(ROWS):
        spam = bool(rng.random() < 0.4)
        rows.append(
            {
                "label": "yes" if spam else "no",
                "size": None if k % 7 == 0 else float(rng.integers(1, 9)) / 2 + spam,
                "sender": None if k % 11 == 0 else ["ann", "bob", "eve"][int(rng.integers(3))],
                "day": f"2024-{5 + spam:02}-{k % 28 + 1:02}",
                "sent": datetime.datetime(2023, 1 + k % 12, 3, 4 + 8 * spam, 30),
                "subject": f"{'free offer for' if spam else 'see you at'} number {k}",
                "paid": bool(rng.random() < 0.5),
            }
        )
    return rows


def written(folder, rows):
    """The table in files and frames."""
    frame = pd.DataFrame(rows)
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    plain = [{**row, "sent": row["sent"].isoformat(" ")} for row in rows]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in plain))
    arrow = pa.Table.from_pylist(rows)
    pa.parquet.write_table(arrow, folder / "t.parquet")
    pa.feather.write_feather(arrow, folder / "t.arrow")
    return {"pandas": frame, "polars": pl.DataFrame(rows)}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model of each, and where the files are."""
    folder = tmp_path_factory.mktemp("table")
    frames = written(folder, table())
    found = {name: ts.AROW().fit_stream(open_stream(folder / name)) for name in FILES}
    for name, frame in frames.items():
        features = frame.drop("label") if name == "polars" else frame.drop(columns="label")
        found[name] = ts.AROW().fit_stream(from_memory(features, frame["label"].to_numpy(), hasher=Numbering()))
    for name, model in found.items():
        model.save(folder / f"{name}.ts")
    return folder, frames, {name: ts.load(folder / f"{name}.ts") for name in found}


@pytest.mark.parametrize("name", [*FILES, *FRAMES])
def test_the_model_is_the_same(models, name):
    _, _, found = models
    one, other = found[name].coef_[0], found["t.csv"].coef_[0]  # tables are as wide as all numbers
    np.testing.assert_array_equal(np.flatnonzero(one), np.flatnonzero(other))
    np.testing.assert_array_equal(one[one != 0], other[other != 0])
    assert found[name].classes_.tolist() == ["no", "yes"]


def scores_of(model, path):
    batches = model.open_stream(path, labels=False).batches()
    return np.concatenate([model._model.learner.scores(batch) for batch in batches])


@pytest.mark.parametrize("name", [*FILES, *FRAMES])
def test_a_model_reads_all_of_them(models, name):
    folder, frames, found = models
    wanted = scores_of(found["t.csv"], folder / "t.csv")
    assert len(wanted) == ROWS
    for other in FILES:
        np.testing.assert_allclose(scores_of(found[name], folder / other), wanted, rtol=1e-6, err_msg=other)
    for other, frame in frames.items():
        np.testing.assert_allclose(found[name].decision_function(frame), wanted, rtol=1e-6, err_msg=other)
    rows = [{key: value for key, value in row.items() if key != "label"} for row in table()]
    np.testing.assert_allclose(found[name].decision_function(rows), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", [*FILES, *FRAMES])
def test_a_column_that_is_missing_is_named(models, tmp_path, name):
    _, frames, found = models
    frames["pandas"].drop(columns="size").to_csv(tmp_path / "less.csv", index=False)
    with pytest.raises(InvalidInputError, match="lacks columns that the model has learned from: 'size'"):
        scores_of(found[name], tmp_path / "less.csv")


def test_words_among_numbers_of_json_lines_stay_words(tmp_path):
    rows = [{"label": k % 2, "n": k} for k in range(1200)] + [{"label": 0, "n": "many"}, {"label": 1, "n": "few"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert infer_options(tmp_path / "a.jsonl", Options()).options.numeric == ("n",)
    model = ts.AROW().fit_stream(open_stream(tmp_path / "a.jsonl"))
    assert (model.t_, model._model.reading.get("numeric")) == (1202, [])
    assert len(scores_of(model, tmp_path / "a.jsonl")) == 1202


def test_texts_like_numbers_are_categories(tmp_path):
    rows = [{"label": k % 2, "zip": f"0{k % 2}"} for k in range(120)]
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    model = ts.AROW().fit_stream(open_stream(tmp_path / "a.parquet"))
    assert model._model.feature_space["categorical"] == ["zip"]
    np.testing.assert_array_equal(scores_of(model, tmp_path / "a.csv"), scores_of(model, tmp_path / "a.parquet"))


def test_declared_columns_of_tables(tmp_path):
    rows = pa.table(
        {"label": [0, 1, 1], "n": ["2.5", "NA", "True"], "c": [3.0, 4.5, None], "d": ["2024-05-17", "", None]}
    )
    pa.parquet.write_table(rows, tmp_path / "a.parquet")
    stream = open_stream(tmp_path / "a.parquet", numeric=("n",), categorical=("c",), dates=("d",))
    (tmp_path / "a.csv").write_text("label,n,c,d\n0,2.5,3,2024-05-17\n1,NA,4.5,\n1,True,,\n")
    other = open_stream(tmp_path / "a.csv", numeric=("n",), categorical=("c",), dates=("d",))
    (one,), (two,) = stream.batches(), other.batches()
    for name in ("indptr", "indices", "values"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize(
    ("column", "kinds", "message"),
    [
        (
            ["1", "x"],
            {"numeric": ("a",)},
            "column 'a' is numeric .*, so a cell must be a finite number.* got 'x' at row 1",
        ),
        (["2024-05-17", "x"], {"dates": ("a",)}, "column 'a' holds dates, so a cell must be one.* got 'x' at row 1"),
        ([1.0, 2.0], {"dates": ("a",)}, "column 'a' holds dates, .* got 1.0 at row 0"),
        ([datetime.datetime(2024, 5, 17)] * 2, {"numeric": ("a",)}, "column 'a' is numeric .* got a time at row 0"),
        (
            [datetime.datetime(2024, 5, 17)] * 2,
            {"categorical": ("a",)},
            "column 'a' is categorical, .* got a time at row 0",
        ),
    ],
)
def test_cells_that_are_not_what_is_declared(column, kinds, message):
    with pytest.raises(InvalidInputError, match=message):
        list(from_memory(pd.DataFrame({"a": column}), hasher=Numbering(), look=0, **kinds).batches())


def test_nothing_is_found_in_no_rows():
    assert declared_in(Options(), [], True) == ({}, [])
