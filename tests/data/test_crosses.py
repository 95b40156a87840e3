"""Crosses against the definition in plain Python, and against files that have them written out."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinstream as ts
from tests.data.formats import as_text, check, hashed, in_pieces, parse_error, rows_of
from tests.data.naive_crosses import crossed, json_disagreement, readable, vw_disagreement
from thinstream.data import Hashing, Numbering, from_memory, open_stream
from thinstream.data import crosses as crossing_rows
from thinstream.data.options import Options, as_crosses
from thinstream.data.text import hashed_rows
from thinstream.data.text.csv import CSV
from thinstream.data.text.jsonl import JSONLines
from thinstream.data.text.protocol import NameTable
from thinstream.data.text.vw import VW
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.models.file import write

columns = ["a", "b", "ab", "text"]
cross_lists = st.lists(
    st.lists(st.sampled_from(columns), min_size=2, max_size=3).map(tuple),
    max_size=3,
    unique_by=lambda c: tuple(sorted(c)),
)
hashings = st.sampled_from([(22, False), (3, True), (31, True)])
words = st.text("xyé=^ ×", max_size=6)
numbers = st.integers(-20, 20) | st.floats(-1e3, 1e3)


@pytest.mark.twin
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "ab", "a.b", "c"]),
            numbers
            | words
            | st.lists(numbers | words, max_size=3)
            | st.dictionaries(st.just("in"), numbers, max_size=1),
            max_size=4,
        ).flatmap(lambda row: st.builds(lambda text: {**row, "text": text}, words)),
        max_size=4,
    ),
    cross_lists,
    hashings,
    st.sampled_from(["float32", "float64"]),
    st.lists(st.integers(0, 300), max_size=3),
)
def test_json(rows, cross, how, dtype, cuts):
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    form = JSONLines(text=["text"], cross=cross, hashing=Hashing(*how), dtype=dtype)
    parsed = form.parse(as_text(data))
    check(parsed, data, dtype)
    assert parsed.error is None
    assert json_disagreement(parsed, data, form) is None
    assert in_pieces(form, data, cuts) == list(rows_of(parsed))


vw_words = st.text("xyé=^.", min_size=1, max_size=4)
vw_numbers = st.integers(-20, 20) | st.floats(-100, 100)  # three scaled values multiply to less than a row may hold
vw_rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "ab", "b", "b.c", "b[0]", "b=", "é", ""]),
        st.none() | vw_numbers,
        st.lists(st.tuples(vw_words, st.none() | vw_numbers), max_size=4),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.twin
@given(
    st.lists(vw_rows, max_size=4),
    st.lists(
        st.lists(st.sampled_from(["a", "ab", "b", "b=", "é"]), min_size=2, max_size=3).map(tuple),
        max_size=3,
        unique_by=lambda c: tuple(sorted(c)),
    ),
    hashings,
    st.lists(st.integers(0, 300), max_size=3),
)
def test_vw(rows, cross, how, cuts):
    def feature(name, value):
        return name if value is None else f"{name}:{value!r}"

    lines = [
        "|".join(" ".join([feature(s, scale), *(feature(*f) for f in fs)]) for s, scale, fs in row) for row in rows
    ]
    data = "".join(f"1 |{line}\n" for line in lines).encode()
    form = VW(cross=cross, hashing=Hashing(*how))
    parsed = form.parse(as_text(data))
    check(parsed, data)
    assert parsed.error is None
    assert vw_disagreement(parsed, data, form) is None
    assert in_pieces(form, data, cuts) == list(rows_of(parsed))


def test_vw_namespaces_after_an_unnamed_one():
    """An unnamed namespace does not hide that the next one is part of a cross."""
    form = VW(cross=[("a", "a")], hashing=Hashing(22, False))
    data = b"1 |a x| y|a z\n"
    parsed = form.parse(as_text(data))
    assert len(parsed.indices) == 4
    assert vw_disagreement(parsed, data, form) is None


def test_a_cross_larger_than_a_row_may_hold():
    form = VW(cross=[("a", "b")], hashing=Hashing(22, False))
    parsed = form.parse(as_text(b"1 |a x:1e5 |b y:1e5\n1 |a x:1e8 |b y:1e8\n"))
    assert len(parsed.labels) == 1
    assert parsed.error.offset == 20
    assert "at most 1e+15" in parsed.error.message


def csv_features(record):
    for name, cell in record.items():
        if name == "text":
            yield from (
                (name, word, 1.0) for word in cell.replace("=", " ").replace("^", " ").replace("×", " ").split()
            )
        elif isinstance(cell, str) and cell:
            yield f"{name}=", cell, 1.0
        elif cell:
            yield "", name, float(cell)


@pytest.mark.twin
@given(
    st.lists(
        st.fixed_dictionaries(
            {name: numbers | st.text('xy,"é\n', max_size=5) for name in ("a", "ab")} | {"b": numbers, "text": words}
        ),
        max_size=4,
    ),
    cross_lists,
    hashings,
    st.lists(st.integers(0, 300), max_size=3),
)
def test_csv(records, cross, how, cuts):
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    form = CSV(label=None, text=["text"], cross=cross, hashing=Hashing(*how))
    data = out.getvalue().encode()
    data = data[form.header(as_text(data)) :]
    parsed = form.parse(as_text(data))
    check(parsed, data)
    assert parsed.error is None
    expected = [
        hashed(crossed(csv_features({name: record[name] for name in columns}), cross), *how) for record in records
    ]
    assert [features for _, _, features in rows_of(parsed)] == expected
    assert in_pieces(form, data, cuts) == list(rows_of(parsed))


def test_what_is_made_of_what():
    """Products under the names of their parts; a column with itself once per pair; nothing of what is missing."""
    form = JSONLines(cross=[("user", "item"), ("age", "size"), ("user", "age"), ("tag", "tag")], names=NameTable())
    row = {"user": "ann", "item": "7", "age": 31, "size": 0.5, "tag": ["x", "y", "z"]}
    parsed = form.parse(as_text(json.dumps(row).encode() + b'\n{"user": "bob"}\n'))
    named = dict(zip(parsed.named.names, parsed.named.indices))
    values = dict(zip(parsed.indices[: parsed.indptr[1]].tolist(), parsed.values.tolist()))
    made = {name: values[index] for name, index in named.items() if "×" in name}
    pairs = {"tag=x × tag=y": 1.0, "tag=x × tag=z": 1.0, "tag=y × tag=z": 1.0}
    assert made == {"user=ann × item=7": 1.0, "age × size": 15.5, "user=ann × age": 31.0, **pairs}
    assert all(Hashing().index(name) == named[name] for name in made)  # a plain name of the empty namespace
    assert parsed.indptr[2] - parsed.indptr[1] == 1


def test_namespaces_by_their_first_letter():
    form = VW(cross=[("u", "item")], names=NameTable())
    form.names.add(form.parse(as_text(b"1 |user ann |item 7 |uncle bob |urn= x |size 3\n")).named)
    crosses = [name for name in form.names.values() if "×" in name]
    assert crosses == ["user^ann × item^7", "uncle^bob × item^7", "urn=x × item^7"]


ROWS = [
    {"label": int(k % 3 == 0), "user": f"u{k % 5}", "item": str(k % 7) + "i", "age": (k % 11) / 4, "size": 2 + k % 3}
    for k in range(300)
]
CROSS = [("user", "item"), ("age", "size"), ("user", "age", "item")]


def by_hand(row):
    """The row with its crosses written out."""
    features = [(f"{k}=", v, 1.0) if isinstance(v, str) else ("", k, v) for k, v in row.items() if k != "label" and v]
    more = crossed(features, CROSS)[len(features) :]
    return {**row, **{name: value for _, name, value in more}}


def written(rows, path):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("bits", [22, 4])
def test_a_model_is_that_of_rows_crossed_by_hand(tmp_path, bits):
    """To the bit, also where names share numbers."""
    options = {"bits": bits, "signed": bits == 4}
    model = ts.SSOL().fit_stream(open_stream(written(ROWS, tmp_path / "plain.jsonl"), cross=CROSS, **options))
    rows = map(by_hand, ROWS)
    other = ts.SSOL().fit_stream(open_stream(written(rows, tmp_path / "crossed.jsonl"), **options))
    for name, found in (("one", model), ("two", other)):
        write(tmp_path / name, replace(found._model, feature_space={}, reading={}))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert model.coef_.any()


def test_formats_agree(tmp_path):
    """JSON Lines, CSV, dicts, frames and Parquet make the same rows of the same columns."""
    pandas, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    frame = pandas.DataFrame(ROWS)
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    labels = [row["label"] for row in ROWS]
    dicts = [({k: v for k, v in row.items() if k != "label"}, row["label"]) for row in ROWS]
    hasher = Numbering(Hashing())
    streams = [
        open_stream(written(ROWS, tmp_path / "rows.jsonl"), cross=CROSS),
        open_stream(tmp_path / "rows.csv", cross=CROSS),
        open_stream(tmp_path / "rows.parquet", cross=CROSS),
        from_memory(frame.drop(columns="label"), labels, hasher=hasher, cross=CROSS),
        from_memory(dicts, hasher=hasher, cross=CROSS, rows_per_batch=70),
    ]
    spaces = [stream.feature_space for stream in streams]
    assert spaces[0]["cross"] == [["age", "size"], ["user", "age", "item"], ["user", "item"]]
    assert all(space == spaces[0] for space in spaces)
    found = [_bytes_of(stream) for stream in streams]
    assert len(found[0][0]) == len(ROWS) + 1
    assert all(each == found[0] for each in found)


def test_signs_of_tables(tmp_path):
    """A hash that turns signs gives crosses signs of their own, not those of their parts."""
    hasher, rows = Numbering(Hashing(bits=20, signed=True)), ROWS[:50]
    stream = open_stream(written(rows, tmp_path / "rows.jsonl"), cross=CROSS, bits=20, signed=True)
    dicts = [({k: v for k, v in row.items() if k != "label"}, row["label"]) for row in rows]
    assert _bytes_of(from_memory(dicts, hasher=hasher, cross=CROSS)) == _bytes_of(stream)
    batch = next(stream.batches())
    assert (batch.values < 0).any()


def _bytes_of(stream):
    """Rows, and all of their bits."""
    batches = list(stream.batches())
    whole = type(batches[0]).concatenate(batches)
    return whole.indptr.tolist(), *(array.tobytes() for array in (whole.indices, whole.values, whole.y))


def test_pieces_are_small_and_change_nothing(tmp_path, monkeypatch):
    path = written(ROWS, tmp_path / "rows.jsonl")
    whole = _bytes_of(open_stream(path, cross=CROSS))
    monkeypatch.setattr(hashed_rows, "PIECE", 100)
    stream = open_stream(path, cross=CROSS, threads=2)
    batches = list(stream.batches())
    assert max(map(len, batches)) <= 2
    assert [batch.position.line for batch in batches][-1] == len(ROWS)
    assert _bytes_of(stream) == whole
    middle = batches[40].position
    rest = type(batches[0]).concatenate(batches[41:])
    again = list(stream.batches(middle))
    assert type(rest).concatenate(again).indices.tobytes() == rest.indices.tobytes()


def test_line_numbers_of_bad_records(tmp_path, monkeypatch):
    monkeypatch.setattr(hashed_rows, "PIECE", 60)
    path = tmp_path / "bad.jsonl"
    lines = [json.dumps(row) for row in ROWS[:20]]
    lines[13] = '{"label": 1, "user": [[]]}'
    path.write_text("\n".join(lines))
    with pytest.raises(InvalidInputError, match=r"bad\.jsonl, line 14, column 1: a list must hold numbers"):
        list(open_stream(path, cross=CROSS).batches())
    stream = open_stream(path, cross=CROSS, on_error="skip")
    assert sum(map(len, stream.batches())) == 19
    assert stream.skipped.count == 1


def test_too_many_crosses_of_a_row(monkeypatch):
    monkeypatch.setattr(crossing_rows, "MOST", 6)
    form = VW(cross=[("a", "b"), ("a", "a", "c")])
    fine, bad = b"1 |a x y z |b p q\n1 |a 1 2 3 4 5 6 7 8 |b z\n", b"1 |a x y z |b p q r\n"
    parsed = form.parse(as_text(fine[:18] + bad + b"1 |a x\n"))
    assert len(parsed.labels) == 1
    message = "a row may have at most 1,048,576 crosses, got more; cross columns with fewer features"
    assert parse_error(form, fine[:18] + bad) == (18, message)
    # eight over two are more than six, yet there is nothing to cross them with
    assert parse_error(form, fine)[0] == 18
    assert VW(cross=[("a", "a", "c")]).parse(as_text(fine)).error is None


def test_products_that_are_too_large():
    offset, message = parse_error(VW(cross=[("a", "b")]), b"1 |a x:1e8 |b y\n1 |a x:1e8 |b y:1e8\n")
    assert offset == 16
    assert message.startswith("|value| must be at most 1e+15")
    with pytest.raises(InvalidInputError, match=r"must be at most 1e\+15 .* at row 1"):
        list(from_memory([{"a": 1}, {"a": 1e9, "b": 1e9}], hasher=Numbering(), cross=[("a", "b")]).batches())
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 1e9], "b": [1.0, 1e9]})
    with pytest.raises(InvalidInputError, match=r"must be at most 1e\+15 .* at row 1"):
        list(from_memory(frame, hasher=Numbering(), cross=[("a", "b")]).batches())


@pytest.mark.parametrize(
    ("given_cross", "message"),
    [
        ("user,item", "cross must be a list of tuples"),
        (("user", "item"), "a cross must have two or more column names, as in .*, got 'user'"),
        ([("user",)], r"a cross must have two or more column names, as in .*, got \('user',\)"),
        ([("user", "")], "a cross must have two or more column names"),
        ([("user", 3)], "a cross must have two or more column names"),
        ([("a", "b"), ("b", "a")], r"each cross may occur only once, .*, got \('b', 'a'\) again"),
        ([(f"a{k}", f"b{k}") for k in range(32)], "crosses may have at most 63 different names, got 64"),
    ],
)
def test_what_may_be_asked_for(given_cross, message):
    with pytest.raises(InvalidParameterError, match=message):
        Options(cross=given_cross)


def test_order_of_crosses_does_not_matter():
    assert as_crosses([["b", "a"], ("a", "c")]) == as_crosses((("a", "c"), ("b", "a"))) == (("a", "c"), ("b", "a"))


def test_columns_that_are_not_there(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("label,user,item,day\n1,ann,7,2\n")
    with pytest.raises(InvalidInputError, match="line 1: cross: there is no feature column 'usr'; did you mean 'user'"):
        list(open_stream(path, cross=[("usr", "item")]).batches())
    with pytest.raises(
        InvalidInputError, match="there is no feature column 'colour'; there are 'user', 'item' or 'day'"
    ):
        list(open_stream(path, cross=[("item", "colour")]).batches())
    with pytest.raises(InvalidParameterError, match="cross: 'label' has the role label, so it has no features"):
        open_stream(path, cross=[("item", "label")])
    with pytest.raises(InvalidParameterError, match="cross: 'day' has the role ignore"):
        open_stream(path, cross=[("item", "day")], ignore=("day",))
    pandas, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    frame = pandas.read_csv(path)
    with pytest.raises(InvalidInputError, match="there is no feature column 'itme'; did you mean 'item'"):
        from_memory(frame, hasher=Numbering(), cross=[("user", "itme")])
    parquet.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet")
    with pytest.raises(InvalidInputError, match="there is no feature column 'itme'; did you mean 'item'"):
        list(open_stream(tmp_path / "rows.parquet", cross=[("user", "itme")]).batches())
    lists = pa.table({"label": [1], "indices": [[0]], "values": [[1.0]]})
    parquet.write_table(lists, tmp_path / "lists.parquet")
    with pytest.raises(InvalidInputError, match="cross needs named columns, but the rows are lists of feature indices"):
        list(open_stream(tmp_path / "lists.parquet", cross=[("a", "b")]).batches())


def test_formats_without_names(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1\n")
    with pytest.raises(InvalidParameterError, match=r"cross is an option of the format .*'jsonl', .* for libsvm"):
        open_stream(tmp_path / "rows.svm", cross=[("a", "b")])
    with pytest.raises(
        InvalidParameterError, match=r"cross needs named features: pass hasher=Numbering\(…\), got None"
    ):
        from_memory(np.eye(2), [1, -1], cross=[("a", "b")])


def test_an_option_that_does_not_exist():
    with pytest.raises(InvalidParameterError, match="there is no option 'crosses'; did you mean 'cross'"):
        open_stream("x.csv", crosses=[("a", "b")])


def test_a_model_takes_its_crosses_along(tmp_path):
    """It opens data with them, and refuses data without, or with others."""
    path = written(ROWS, tmp_path / "rows.jsonl")
    model = ts.AROW().fit_stream(open_stream(path, cross=CROSS))
    opened = model.open_stream(path)
    assert opened.feature_space == model._model.feature_space
    [predicted] = model.predict_stream(opened)
    [same] = model.predict_stream(open_stream(path, cross=CROSS[::-1]))
    assert predicted.tolist() == same.tolist()
    with pytest.raises(InvalidInputError, match="Read the rows with the same options"):
        model.predict_stream(open_stream(path))
    with pytest.raises(
        InvalidParameterError, match=r"learned with cross age,size and .* it cannot be used with cross user,item"
    ):
        model.open_stream(path, cross=[("user", "item")])
    dicts = [{name: value for name, value in row.items() if name != "label"} for row in ROWS]
    assert model.predict(dicts).tolist() == predicted.tolist()
    ts.save(model, tmp_path / "m.ts")
    assert ts.load(tmp_path / "m.ts").open_stream(path).feature_space == opened.feature_space
    # a frame of the same columns is another format of the same features
    csv_path = tmp_path / "rows.csv"
    csv_path.write_text("user,item,age,size\n" + "".join("{user},{item},{age},{size}\n".format(**row) for row in ROWS))
    [also] = model.predict_stream(model.open_stream(csv_path, labels=False))
    assert also.tolist() == predicted.tolist()


def test_a_cache_has_the_crosses(tmp_path):
    pytest.importorskip("pyarrow")
    path = written(ROWS, tmp_path / "rows.jsonl")
    plain = _bytes_of(open_stream(path, cross=CROSS))
    assert _bytes_of(open_stream(path, cross=CROSS, cache=True)) == plain
    [kept] = Path(tmp_path).glob("*.cache")
    assert _bytes_of(open_stream(kept, cross=CROSS)) == plain
    with pytest.raises(InvalidParameterError, match=r"was made with cross.* cannot be read with"):
        open_stream(kept, cross=CROSS[:1])


def test_what_never_came_is_told(tmp_path):
    """At the end, as only then it is known; what is near is named."""
    path = written(ROWS[:20], tmp_path / "rows.jsonl")
    stream = open_stream(path, cross=[("usr", "item"), ("age", "age")])
    with pytest.warns(UserWarning, match="cross: ") as told:
        ts.FSOL().fit_stream(stream)
    assert [str(one.message) for one in told] == [
        "cross: no row has 'usr'; did you mean 'user'?",
        "cross: no row has features of all columns of age × age",
    ]
    assert open_stream(path, cross=[("user", "item")]).remarks


def test_readable_names():
    """Of crosses within a piece, of plain features between them, and with words of a text."""
    form = CSV(label="y", text=["t"], cross=[("t", "u"), ("t", "t")], names=NameTable())
    text = b'y,u,t\n1,"a ""b""",free offer\n0,2,late\n'
    form.names.add(form.parse(as_text(text[form.header(as_text(text)) :])).named)
    spelled = [form.names[k] for k in form.names]
    first = ['u=a "b"', "t^free", "t^offer", "t^free × t^offer", 't^free × u=a "b"', 't^offer × u=a "b"']
    assert spelled == [*first, "u", "t^late", "t^late × u"]
    for name in spelled:
        if "×" in name:
            assert form.names[Hashing().index(name)] == name
    assert readable("t", "free") == "t^free"
