"""The query over a table as it is scores rows as the model does: numbers, words, dates, missing cells."""

import csv
import sqlite3

import numpy as np
import pytest

import thinstream as ts
from tests.export.scorers import written
from thinstream.errors import InvalidParameterError
from thinstream.export import LinearModel

COLUMNS = ("label", "size", "city", "sent", "subject", "odd", 'quo"te', "flag")
CITIES = ["Oslo", "O'Brien", '"Rome"', "São Paulo 🙂", "x=y", "NA", "", "12 monkeys"]
WORDS = ["free", "FREE", "Geld", "ΑΣ", "Привет", "naïve", "日本", "don't", "<i>", "İx", "Σ", "ΣΑΣ", "a_1", "٣x", "ÀÉ"]
ODD = ["3", "-2.5", "b", "+7", "1.2.3", "", "?", "x1", "."]


def rows(n, seed):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        size = "" if rng.random() < 0.1 else f"{rng.normal():.3f}"
        day = f"20{rng.integers(10, 30)}-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}"
        day = rng.choice([day, f"{day}T{rng.integers(0, 24):02}:05:00", "NA"], p=[0.5, 0.4, 0.1])
        subject = " ".join(rng.choice(WORDS, rng.integers(3, 9))) + rng.choice(["", "!", " ..."])
        cells = [
            size,
            rng.choice(CITIES),
            day,
            subject,
            rng.choice(ODD),
            str(rng.integers(0, 5)),
            rng.choice(["True", "False"]),
        ]
        score = (
            2 * float(size or 0) + (cells[1] == "Oslo") - ("Geld" in subject) + (day[5:7] > "06") + 0.5 * rng.normal()
        )
        found.append([str(int(score > 0.3)), *map(str, cells)])
    return found


def table(path, lines):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *lines])
    return path


def in_sqlite(query, lines):
    connection = sqlite3.connect(":memory:")
    names = ", ".join('"' + name.replace('"', '""') + '" TEXT' for name in COLUMNS)
    connection.execute(f"CREATE TABLE data({names})")
    connection.executemany(f"INSERT INTO data VALUES ({', '.join('?' * len(COLUMNS))})", lines)
    return connection.execute(query).fetchall()


def in_duckdb(query, lines):
    connection = pytest.importorskip("duckdb").connect()
    names = ", ".join('"' + name.replace('"', '""') + '" VARCHAR' for name in COLUMNS)
    connection.execute(f"CREATE TABLE data({names})")
    connection.executemany(f"INSERT INTO data VALUES ({', '.join('?' * len(COLUMNS))})", lines)
    return connection.execute(query).fetchall()


MODELS = {
    "AROW": (lambda: ts.AROW(), {}),
    "Auto": (lambda: ts.Auto(portfolio=[ts.FSOL(), ts.AROW(scale="rms", normalize="l2")]), {}),
    "ignored": (lambda: ts.AROW(), {"missing": "ignore", "stop": ("free", "naïve"), "signed": True}),
    "as is": (lambda: ts.AROW(), {"missing": "as-is", "lower": False, "binary": True}),
}


@pytest.mark.parametrize("run", [in_sqlite, in_duckdb])
@pytest.mark.parametrize("name", MODELS)
def test_a_table_is_scored_as_it_is(name, run, tmp_path):
    make, options = MODELS[name]
    train, test = table(tmp_path / "train.csv", rows(400, 1)), rows(60, 2)
    stream = ts.open_stream(train, text=("subject",), **options)
    model = make().fit_stream(stream)
    scores = np.concatenate(
        [model._model.learner.scores(b) for b in model.open_stream(table(tmp_path / "test.csv", test)).batches()]
    )
    found = run(written(LinearModel.of(model._model), "sql_table").decode(), test)
    assert [line[0] for line in found] == list(range(1, len(test) + 1))
    np.testing.assert_allclose([line[1] for line in found], scores, rtol=2e-4, atol=2e-4 * np.abs(scores).mean())
    assert [line[2] for line in found] == [model.classes_[int(score > 0)] for score in scores]
    if name == "Auto":
        assert [line[3] for line in found] == pytest.approx(1 / (1 + np.exp(-scores.astype(float))), rel=1e-3)


def test_what_no_table_has_is_refused(tmp_path):
    with pytest.raises(InvalidParameterError, match="sql_table needs a model of a table"):
        written(LinearModel.of(ts.AROW().fit(np.eye(3), [0, 1, 1])._model), "sql_table")
    path = table(tmp_path / "t.csv", rows(40, 1))
    for options in ({"cross": [("city", "size")]}, {"text": ("subject",), "ngrams": (1, 2)}):
        model = ts.AROW().fit_stream(ts.open_stream(path, **options))
        with pytest.raises(InvalidParameterError, match="sql_table does not support crosses and n-grams"):
            written(LinearModel.of(model._model), "sql_table")
