"""``thinstream explain``."""

import json
from pathlib import Path

import pytest

LINES = ["spam,size,city,id"] + [
    f"{'yes' if i % 3 else 'no'},{i % 7},{'Oslo' if i % 3 else 'Rome'},r{i}" for i in range(300)
]


@pytest.fixture
def table(there, thin):
    Path("t.csv").write_text("\n".join(LINES) + "\n")
    Path("few.csv").write_text("size,city,id\n3,Oslo,a\n2,Rome,b\n")
    thin(
        "train",
        "t.csv",
        "--label",
        "spam",
        "--ignore",
        "id",
        "-a",
        "ftrlproximal",
        "--loss",
        "logistic",
        "-m",
        "m.ts",
        "-q",
    )


def test_rows_of_a_table_are_explained_by_names(table, thin):
    found = [json.loads(line) for line in thin("explain", "few.csv", "-m", "m.ts", "--id", "id", "--json").splitlines()]
    scores = [float(line) for line in thin("predict", "few.csv", "-m", "m.ts", "--scores").split()]
    assert [(row["row"], row["id"], row["label"], row["explained"]) for row in found] == [
        (1, "a", "yes", "yes"),
        (2, "b", "no", "yes"),
    ]
    for row, score, city in zip(found, scores, ("city=Oslo", "city=Rome"), strict=True):
        assert {*row["contributions"]} == {"size", city}
        assert row["score"] == pytest.approx(score)
        assert row["intercept"] + sum(row["contributions"].values()) == pytest.approx(score, rel=1e-5)
    said = thin("explain", "few.csv", "-m", "m.ts", "--top", "1")
    assert said.startswith("row 1: yes (score of yes ")
    assert "probability" in said
    assert said.count("all other features") == 2
    assert "city=Oslo" in said


def test_numbered_features(there, thin):
    Path("d.svm").write_text("+1 1:1 3:2\n-1 2:1\n" * 50)
    thin("train", "d.svm", "-a", "arow", "-m", "m.ts", "-q")
    row, other = (json.loads(line) for line in thin("explain", "d.svm", "-m", "m.ts", "--json").splitlines()[:2])
    assert ({*row["contributions"]}, {*other["contributions"]}) == ({"column 0", "column 2"}, {"column 1"})
