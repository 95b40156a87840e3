"""A loaded model takes what its stream took: dicts, frames, texts, lines; columns by name."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from thinstream.data import Hashing
from thinstream.errors import InvalidInputError

CSV = "label,age,city,zip\nyes,31,Oslo,0150\nno,5,Rome,00100\nyes,40.5,Oslo,0151\nno,7,Bonn,53111\nno,,Rome,\n"
ROWS = [
    {"age": 31, "city": "Oslo", "zip": "0150"},
    {"age": 5, "city": "Rome", "zip": "00100"},
    {"age": 40.5, "city": "Oslo", "zip": "0151"},
    {"age": 7, "city": "Bonn", "zip": "53111"},
    {"age": None, "city": "Rome"},
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text(CSV)


def trained(path, name="arow", **options):
    ts.make(name).fit_stream(ts.open_stream(path, **options)).save("m.ts")
    return ts.load("m.ts")


def scores_of_file(model, path="d.csv"):
    return [
        float(score)
        for batch in model.open_stream(path, labels=False).batches()
        for score in np.atleast_1d(model._model.learner.scores(batch))
    ]


@pytest.mark.parametrize("normalize", [None, "l2"])
@pytest.mark.parametrize("name", ["arow", "fgm"])
def test_dicts_and_frames_are_read_as_the_file(name, normalize, folder):
    model = trained("d.csv", name, classes=("no", "yes"), categorical=("zip",), normalize=normalize)
    expected = scores_of_file(model)
    assert model.decision_function(ROWS).tolist() == expected
    assert model.predict(ROWS).tolist() == np.where(np.array(expected) > 0, "yes", "no").tolist()
    assert model.decision_function([json.dumps(row) for row in ROWS]).tolist() == expected
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv("d.csv", dtype={"zip": str})
    assert model.decision_function(frame).tolist() == expected  # the label is no feature
    turned = frame[["zip", "city", "age"]].sample(frac=1, random_state=0)
    assert model.decision_function(turned).tolist() == [expected[i] for i in turned.index]


def test_polars(folder):
    polars = pytest.importorskip("polars")
    model = trained("d.csv", classes=("no", "yes"), categorical=("zip",))
    frame = polars.DataFrame({name: [row.get(name) for row in ROWS] for name in ("city", "age", "zip")}, strict=False)
    assert model.decision_function(frame).tolist() == scores_of_file(model)


def test_texts(folder):
    Path("t.csv").write_text('label,subject\n1,Free MONEY now\n0,see you at noon\n1,"money, free"\n0,noon then\n')
    model = trained("t.csv", text=("subject",))
    texts = ["Free MONEY now", "see you at noon", "money, free", "noon then"]
    expected = scores_of_file(model, "t.csv")
    assert model.decision_function(texts).tolist() == expected
    assert model.decision_function(np.array(texts)).tolist() == expected
    assert model.decision_function([f"{text}\n" for text in texts]).tolist() == expected
    assert model.decision_function([{"subject": text} for text in texts]).tolist() == expected
    assert model.decision_function(["", "{"]).tolist() == [model.intercept_[0]] * 2


@pytest.mark.parametrize("kind", ["csv", "tsv"])
@pytest.mark.parametrize("header", [True, False])
def test_lines_of_csv(kind, header, folder):
    mark = "\t" if kind == "tsv" else ","
    lines = CSV.replace("Bonn", '"Bonn, Rhein"').replace(",", mark).replace(f"Bonn{mark} ", "Bonn, ").splitlines()
    Path(f"d.{kind}").write_text("\n".join(lines[not header :]) + "\n")
    own = {"label": "label", "categorical": ("zip",)} if header else {"label": "c1", "categorical": ("c4",)}
    model = trained(f"d.{kind}", classes=("no", "yes"), header=header, **own)
    expected = scores_of_file(model, f"d.{kind}")
    assert model.decision_function(lines[1:]).tolist() == expected  # the label is no feature
    bare = [line.split(mark, 1)[1] for line in lines[1:]]
    assert model.decision_function(bare).tolist() == expected
    assert model.decision_function(np.array(bare)).tolist() == expected
    assert model.decision_function([f"unheard of{mark}{line}" for line in bare]).tolist() == expected
    again = ts.load("m.ts").partial_fit(bare, ["yes", "no", "yes", "no", "no"])
    assert again.t_ == 10


def test_lines_of_csv_with_columns_left_out_and_weights(folder):
    Path("w.csv").write_text("id,w,n,label,city\n1,2,0.5,1,Oslo\n2,1,-1,0,Rome\n3,0.5,,1,Oslo\n")
    model = trained("w.csv", weight="w", ignore=("id",), cross=(("n", "city"),))
    lines = ["7,,0.5,,Oslo", "8,1,-1,,Rome", "9,3,,,Oslo"]
    assert model.decision_function(lines).tolist() == scores_of_file(model, "w.csv")
    again = model.merge(trained("w.csv", weight="w", ignore=("id",), cross=(("n", "city"),)))
    assert len(again.predict(lines)) == 3


def test_models_of_other_files_take_no_lines_of_csv(folder):
    Path("d.jsonl").write_text('{"label": 1, "n": 2, "city": "Oslo"}\n{"label": 0, "n": 3, "city": "Rome"}\n')
    with pytest.raises(InvalidInputError, match=r"X must be dicts or a frame for this model.* got '2,Oslo'"):
        trained("d.jsonl").predict(["2,Oslo"])


def test_lines_of_libsvm_and_vw(folder):
    Path("d.svm").write_text("1 1:1 3:0.5\n-1 2:1\n1 1:2\n")
    model = trained("d.svm", normalize="l2")
    assert model.decision_function(["1:1 3:0.5", "2:1", "1:2"]).tolist() == scores_of_file(model, "d.svm")
    named = ts.AROW().fit([[1.0, 0.0], [0.0, 1.0]], ["ham", "spam"])  # files of libsvm have numbers for labels
    assert (
        named.decision_function(["1:1", "2:1"]).tolist() == named.decision_function([[1.0, 0.0], [0.0, 1.0]]).tolist()
    )
    Path("d.vw").write_text("1 |a x:2 y\n-1 |b z\n")
    model = trained("d.vw")
    assert model.decision_function(["|a x:2 y", "1 |b z"]).tolist() == scores_of_file(model, "d.vw")


def test_numbers_that_are_categories_and_texts_that_are_numbers(folder):
    model = trained("d.csv", classes=("no", "yes"), categorical=("zip",), numeric=("age",))
    one = model.decision_function([{"age": 7, "city": "Bonn", "zip": "53111"}])
    for age, code in ((7.0, 53111), ("7", 53111.0), (np.float32(7), np.int64(53111))):
        assert model.decision_function([{"age": age, "city": "Bonn", "zip": code}]) == one
    assert model.decision_function([{"age": "NA", "city": "Rome"}]) == model.decision_function([{"city": "Rome"}])


def test_more_is_learned_from_dicts(folder):
    model = trained("d.csv", classes=("no", "yes"), categorical=("zip",))
    other = ts.load("m.ts").partial_fit_stream(model.open_stream("d.csv"))
    model.partial_fit(ROWS, ["yes", "no", "yes", "no", "no"])
    assert model.decision_function(ROWS).tolist() == other.decision_function(ROWS).tolist()
    assert model.t_ == 10


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([{"age": float("inf")}], "X: numbers must be finite, got .* at row 0"),
        ([{"age": 1}, {"age": object()}], "X: 'age' must be a number, .* got <object"),
        (
            ["a text"],
            "lines must have the cells 'label,age,city,zip', with or without 'label', got 1 cells in 'a text'",
        ),
        (["yes,1,Oslo,0150", "no,1,2"], "X, row 1: "),
        (['"yes,1,Oslo,0150'], "X: lines must have the cells"),
        ([{"age": {"a": {"b": [[1]]}}}], "a list must hold numbers or strings"),
    ],
)
def test_refused(X, message, folder):
    model = trained("d.csv", classes=("no", "yes"))
    with pytest.raises(InvalidInputError, match=message):
        model.predict(X)


def test_what_is_missing_is_named(folder):
    pandas = pytest.importorskip("pandas")
    model = trained("d.csv", classes=("no", "yes"))
    with pytest.raises(InvalidInputError, match="columns that the model has learned from: 'zip'"):
        model.predict(pandas.DataFrame({"age": [1], "city": ["Oslo"]}))


def test_models_of_other_columns(folder):
    model = trained("d.csv", classes=("no", "yes"), text=("city",))
    with pytest.raises(InvalidInputError, match="the cells 'label,age,city,zip', with or without 'label', got 1 cells"):
        model.predict(["Oslo"])
    Path("d.svm").write_text("1 1:1\n-1 2:1\n")
    model = trained("d.svm")
    with pytest.raises(InvalidInputError, match="learned from numbered features"):
        model.predict([{"age": 1}])
    assert model.predict([[1.0, 0.0]]).tolist() == [1]
    with pytest.raises(InvalidInputError, match="X, row 1: "):
        model.predict(["1:1", "x:y"])
    with pytest.raises(InvalidInputError, match="got 2 strings with 1 rows"):
        model.predict(["1:1", ""])


@pytest.mark.parametrize("grow", [False, True])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (np.asarray, "arow"),
        (sp.csr_matrix, "arow"),
        (np.ndarray.tolist, "arow"),
        (sp.csr_matrix, "fgm"),
        pytest.param(np.asarray, "fgm", marks=pytest.mark.slow),
        pytest.param(np.ndarray.tolist, "fgm", marks=pytest.mark.slow),
    ],
)
def test_a_matrix_has_no_names(kind, name, grow, folder):
    own = {"grow": grow} if name == "arow" else {}
    model = ts.make(name, **own).fit_stream(ts.open_stream("d.csv", classes=("no", "yes"), bits=10))
    message = "X must be a list of dicts"
    with pytest.raises(InvalidInputError, match=message + ", a frame, .* got a matrix of 3 columns"):
        model.predict(kind(np.ones((1, 3))))
    wide = sp.csr_matrix(([1.0], ([0], [Hashing(bits=10).index("age")])), shape=(1, 1 << 10))
    if name == "arow":  # rows that somebody else has hashed
        rest = {"city": "nowhere", "zip": 0}
        assert model.decision_function(wide).tolist() == model.decision_function([{"age": 1, **rest}]).tolist()


def test_keys_are_columns_of_the_files(folder):
    model = trained("d.csv", classes=("no", "yes"), ignore=("zip",))
    with pytest.raises(InvalidInputError, match=r"X, row 1: the model has no column 'cty'; did you mean 'city'\?"):
        model.predict([{"city": "Oslo"}, {"cty": "Oslo"}])
    with pytest.raises(InvalidInputError, match=r"no column 'height'; its columns are 'age', 'city'$"):
        model.partial_fit([{"height": 3}], ["yes"])
    whole = {"label": "yes", "age": 3, "city": "Oslo", "zip": "0150"}
    assert model.decision_function([whole]) == model.decision_function([{"age": 3, "city": "Oslo"}])
    empty = model.decision_function([{"age": None, "city": ""}])
    assert model.decision_function([{}]) == empty != model.intercept_  # a table has a cell for each column
    model = trained("d.csv", classes=("no", "yes"), ignore=("zip",), missing="ignore")
    assert model.decision_function([{}]) == model.intercept_


def test_models_of_files_without_columns_take_any_key(folder):
    Path("d.jsonl").write_text('{"label": 1, "n": 2, "city": "Oslo"}\n{"label": 0, "n": 3, "city": "Rome"}\n')
    assert len(trained("d.jsonl").predict([{"height": 3}])) == 1


@pytest.mark.parametrize(("X", "what"), [({"age": 1}, "dict"), ("yes,1,Oslo,0150", "string")])
def test_one_row_is_no_list_of_rows(X, what, folder):
    models = [trained("d.csv", classes=("no", "yes")), ts.AROW().fit(np.eye(2), [0, 1])]
    for model in models:
        with pytest.raises(InvalidInputError, match=rf"X must be a list of rows, got one {what}\. Pass \[X\]"):
            model.predict(X)


def test_a_dictionary_of_keys_is_a_matrix():
    X = np.array([[1.0, 0.0], [0.0, 2.0]])
    model = ts.AROW().fit(sp.dok_matrix(X), [0, 1])
    assert model.predict(sp.dok_matrix(X)).tolist() == [0, 1]


def test_a_model_of_a_matrix_takes_no_texts():
    model = ts.AROW().fit(np.eye(2), ["ham", "spam"])
    with pytest.raises(InvalidInputError, match=r"lines of libsvm .* learned from 2 numbered columns"):
        model.predict(["some text"])
    assert model.predict(["0 2:1"]).tolist() == ["spam"]
