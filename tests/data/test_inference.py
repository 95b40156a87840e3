"""What is found by looking at a source."""

import gzip
import json
import os
import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinstream.data import inference as heads
from thinstream.data import inference as labels
from thinstream.data.inference import classes_in
from thinstream.data.opening import infer_options, open_stream
from thinstream.data.options import Options
from thinstream.errors import InvalidInputError, InvalidParameterError


def looked(path, text, **options):
    path.write_text(text)
    return infer_options(path, Options(**options))


def lines(*cells):
    return "".join(f"{cell}\n" for cell in cells)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["yes", "no"], ("no", "yes")),
        (["True", "False", "False"], ("False", "True")),
        (["1", "0"], (0, 1)),
        (["0", "0"], (0, 1)),
        (["1", "-1"], None),
        (["1", "1"], None),
        (["2", "1"], (1, 2)),
        (["3", "1", "2"], (1, 2, 3)),
        (["0", "0.5", "2"], None),
        (["a", "1", "b"], ("1", "a", "b")),
        (["a", "NA", "b", "?"], ("a", "b")),
        (["a", "", "b"], ("a", "b")),
    ],
)
def test_classes_of_csv(tmp_path, labels, classes):
    found = looked(tmp_path / "a.csv", "label,x\n" + lines(*(f"{label},1" for label in labels)))
    assert found.options.classes == classes


def test_classes_of_other_formats(tmp_path):
    assert looked(tmp_path / "a.svm", "2 1:1\n1 0:1\n").options.classes == (1, 2)  # zero-based or not
    assert looked(tmp_path / "b.svm", "+1 1:1\n-1 2:1\n").options.classes is None
    rows = lines(*(json.dumps({"label": label, "x": 1}) for label in ("b", "a", None)))
    assert looked(tmp_path / "a.jsonl", rows).options.classes == ("a", "b")
    rows = lines(*(json.dumps({"label": label}) for label in (False, True)))
    assert looked(tmp_path / "b.jsonl", rows).options.classes == (False, True)
    assert [type(label) for label in infer_options(tmp_path / "b.jsonl", Options()).options.classes] == [bool, bool]
    assert looked(tmp_path / "a.vw", "1 |a b\n0 |a c\n").options.classes is None
    assert looked(tmp_path / "a.tsv", "label\tx\nu\t1\nv\t1\n").options.classes == ("u", "v")


def test_classes_of_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for values, classes in (
        (["u", "v", "w", None], ("u", "v", "w")),
        ([0, 1, 1, 1], (0, 1)),
        ([1.0, -1.0, None, 1.0], None),
        ([True, False, True, True], (False, True)),
    ):
        parquet.write_table(pa.table({"label": values, "x": [1, 2, 3, 4]}), tmp_path / "a.parquet")
        assert infer_options(tmp_path / "a.parquet", Options()).options.classes == classes
    assert infer_options(tmp_path / "a.parquet", Options(label="none")).options.classes is None


def test_what_is_told(tmp_path):
    found = looked(tmp_path / "a.csv", "label,x\n" + "ham,1\n" * 3 + "spam,2\n")
    assert found.messages[0] == "labels are 'ham' (3) and 'spam' (1); 'spam' is positive"
    found = looked(tmp_path / "a.csv", "label,x\n" + lines(*(f"c{k},1" for k in range(8))))
    assert found.messages[0].startswith("labels are 8 classes: 'c0' (1), 'c1' (1)")
    assert found.messages[0].endswith("'c5' (1), …")


def test_what_is_no_label(tmp_path):
    with pytest.raises(InvalidInputError, match="there are more than 1,000 different labels like 't0'"):
        looked(tmp_path / "a.csv", "label\n" + lines(*(f"t{k}" for k in range(3000))))
    with pytest.raises(
        InvalidInputError, match="there must be at least two classes, but all labels in the first records are 'a'"
    ):
        looked(tmp_path / "a.csv", "label,x\na,1\na,2\n")
    for last in (130, 3000):
        with pytest.raises(InvalidInputError, match=r"different numbers like 1, 2, 3. This looks like regression"):
            looked(tmp_path / "a.svm", lines(*(f"{k} 1:1" for k in range(1, last))))
    assert looked(tmp_path / "a.svm", lines(*(f"{k} 1:1" for k in range(1, 90)))).options.classes == tuple(range(1, 90))


def test_the_rarer_of_two_words_is_positive(tmp_path):
    for often, seldom, expected in (
        ("ontime", "damaged", ("ontime", "damaged")),
        ("damaged", "ontime", ("damaged", "ontime")),
        ("yes", "no", ("no", "yes")),
        ("True", "False", ("False", "True")),
        ("SPAM", "Ham", ("Ham", "SPAM")),
        ("b", "a", ("b", "a")),
    ):
        text = "label,x\n" + f"{often},1\n" * 9 + f"{seldom},2\n"
        assert looked(tmp_path / "a.csv", text).options.classes == expected
    found = looked(tmp_path / "a.csv", "label,x\n" + "ontime,1\n" * 9 + "damaged,2\n")
    assert found.messages[0] == (
        "labels are 'ontime' (9) and 'damaged' (1); 'damaged' is positive, because it is rarer "
        "(change this with --classes NEG,POS)"
    )
    tie = looked(tmp_path / "a.csv", "label,x\nu,1\nv,2\n")
    assert tie.options.classes == ("u", "v")
    assert looked(tmp_path / "a.svm", "1 1:1\n1 1:1\n0 1:1\n").options.classes == (0, 1)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_word_none_is_a_class(tmp_path, kind):
    labels = ["None", "Minor", "None", "Major"]
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("label,x\n" + lines(*(f"{label},1" for label in labels)))
    elif kind == "jsonl":
        path.write_text(lines(*(json.dumps({"label": label, "x": 1}) for label in labels)))
    else:
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.table({"label": labels, "x": [1] * 4}), path)
    stream = open_stream(path)
    assert stream.classes == ("Major", "Minor", "None")
    [batch] = stream.batches()
    assert [stream.classes[k] for k in batch.y] == labels


@pytest.mark.parametrize("kind", ["svm", "csv", "parquet"])
def test_labels_above_a_number_are_positive(tmp_path, kind):
    labels = [100.0 + 0.5 * k for k in range(1500)]
    path = tmp_path / f"a.{kind}"
    if kind == "svm":
        path.write_text(lines(*(f"{label} 1:1" for label in labels)))
    elif kind == "csv":
        path.write_text("label,x\n" + lines(*(f"{label},1" for label in labels)))
    else:
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.table({"label": labels, "x": [1] * len(labels)}), path)
    with pytest.raises(InvalidInputError, match="looks like regression, but thinstream is for classification"):
        open_stream(path)
    stream = open_stream(path, positive_above=300)
    y = np.concatenate([batch.y for batch in stream.batches()])
    assert y.tolist() == [1 if label > 300 else -1 for label in labels]
    assert stream.classes is None
    with pytest.raises(InvalidParameterError, match="Leave one out"):
        open_stream(path, positive_above=300, classes=(1, 2))


def test_a_quote_that_hides_a_class_is_told_with_its_line(tmp_path):
    with pytest.raises(InvalidInputError, match=r"open\.csv, line 4: a quote that opens a cell must be closed"):
        looked(tmp_path / "open.csv", 'label,x\nspam,"1\n2"\nspam,"3\nham,4\nham,5\n')
    with pytest.raises(InvalidInputError, match="there must be at least two classes"):
        looked(tmp_path / "closed.csv", 'label,x\nspam,"1\n2"\nspam,"3"')


def test_what_was_said_is_not_looked_for(tmp_path):
    text = "label,x\nyes,1\nno,2\nmaybe,3\n"
    assert looked(tmp_path / "a.csv", text, classes=("no", "yes", "maybe")).options.classes == ("no", "yes", "maybe")
    assert looked(tmp_path / "a.csv", text, grow_classes=True).options.classes is None
    found = looked(tmp_path / "a.csv", text, look=0)
    assert (found.options.classes, found.options.numeric, found.messages) == (None, (), ())
    assert infer_options(tmp_path / "a.csv", found.options).options == found.options


def test_large_files_are_looked_at_as_far_as_asked_for(tmp_path, monkeypatch):
    text = "label,x\n" + "a,1\n" * 5 + "b,1\n" * 5 + "c,x\n" * 5
    assert looked(tmp_path / "a.csv", text, look=6).options.classes == ("a", "b", "c")  # it is small
    monkeypatch.setattr(heads, "SMALL", 10)
    assert looked(tmp_path / "a.csv", text, look=6).options.classes == ("a", "b")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    with monkeypatch.context() as patch:
        patch.setattr(heads, "SMALL", 1000)
        assert infer_options(tmp_path / "a.csv.gz", Options(look=7)).options.classes == ("a", "b", "c")
    assert infer_options(tmp_path / "a.csv.gz", Options(look=7)).options.classes == ("a", "b")
    assert infer_options(tmp_path / "a.csv.gz", Options(look=11)).options.classes == ("a", "b", "c")


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=60), st.integers(1, 70), st.booleans())
def test_labels_are_those_of_the_first_records_however_they_are_cut(given_labels, records, small):
    form = open_stream_form()
    text = np.frombuffer(bytearray(b"label,x\n" + lines(*(f"{x},1" for x in given_labels)).encode()), np.uint8)
    left = None if small else records
    met = Counter()
    for found, _ in labels._in_text(form, text, True, left):
        met.update(found)
    assert met == Counter(given_labels if small else given_labels[:records])


def open_stream_form():
    from thinstream.data.formats import find_format

    return find_format("csv").open(find_format("csv"), [], Options(grow_classes=True, inferred=())).form


def test_bad_records_do_not_end_it(tmp_path):
    assert looked(tmp_path / "a.csv", "label,x\na,1\nb\nc,2\n").options.classes == ("a", "c")
    assert infer_options(tmp_path / "a.csv", Options(label="z")).options.classes is None


def test_a_pipe_is_looked_at_and_read(tmp_path):
    text = "label,x\n" + "a,1\nb,2\n" * 400
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(text,), daemon=True)
    writer.start()
    found = infer_options(path, Options(look=5))
    assert found.options.classes == ("a", "b")
    stream = open_stream(path, **{k: v for k, v in found.options.given().items() if k != "format"})
    assert sum(map(len, stream.batches())) == 800
    writer.join()


def test_order_of_classes():
    assert classes_in(Counter("zyx")) == ("x", "y", "z")
    assert classes_in(Counter({True: 1})) == (False, True)
    assert classes_in(Counter()) is None


TABLE = "spam,id,n,when,cat,subject,const\n" + lines(
    *(f"{k % 2},{k},{k / 2 or ''},2024-05-{k % 28 + 1:02d},{'abc'[k % 3]},this is text number {k},7" for k in range(40))
)


def test_columns(tmp_path):
    found = looked(tmp_path / "a.csv", TABLE, label="spam")
    assert found.options.numeric == ("const", "id", "n")
    assert (found.options.dates, found.options.text) == (("when",), ("subject",))
    assert found.options.inferred == ("classes", "numeric", "dates", "text")
    assert found.messages == (
        "columns: 1 categorical (cat), 1 dates (when), 3 numeric (id, n, const), 1 text (subject)",
        "column 'id' may be an id, all 40 values differ (--ignore id leaves it out)",
        "column 'const' has the same value in all of the first 40 records",
    )
    assert found.options.arguments() == ["--label", "spam"]


def test_columns_that_are_declared(tmp_path):
    found = looked(
        tmp_path / "a.csv", TABLE, label="spam", categorical=("id", "subject"), ignore=("when",), numeric=("n",)
    ).options
    assert (found.numeric, found.dates, found.text) == (("const", "n"), (), ())
    assert found.categorical == ("id", "subject")


def test_short_texts_that_are_taken_as_categories_are_remarked_on(tmp_path):
    rows = [f"{k % 2},no {k % 29},{'abc'[k % 3]} x" for k in range(40)]
    found = looked(tmp_path / "a.csv", "label,note,kind\n" + lines(*rows))
    assert found.messages == (
        "columns: 2 categorical (note, kind)",
        "column 'note' has many different categories of several words (--text note splits them)",
    )


def test_a_column_of_words_and_numbers_is_decided_cell_by_cell(tmp_path):
    found = looked(tmp_path / "a.csv", "label,a\n0,1\n1,x\n")
    assert (found.options.numeric, found.messages) == ((), ("columns: 1 mixed (a)",))


def test_few_records_of_a_large_file_tell_nothing_of_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(heads, "SMALL", 10)
    assert looked(tmp_path / "a.csv", TABLE, label="spam").options.numeric == ()
    assert looked(tmp_path / "a.csv", TABLE + TABLE.partition("\n")[2] * 3, label="spam").options.numeric != ()


def test_a_word_in_a_numeric_column_is_an_error(tmp_path):
    text = "label,age\n" + "0,31\n1,NA\n" * 60
    (tmp_path / "a.csv").write_text(text)
    stream = open_stream(tmp_path / "a.csv")
    assert stream.form.numeric == ("age",)
    (tmp_path / "a.csv").write_text(text + "0,old\n")
    with pytest.raises(InvalidInputError, match=r"line 122, column 3: column 'age' is numeric \(declared, or inferred"):
        list(stream.batches())


def test_a_first_line_that_is_data(tmp_path):
    found = looked(tmp_path / "a.csv", "5.1,a\n4.9,b\n", label="c2")
    assert (found.options.header, found.options.classes) == (False, ("a", "b"))
    assert found.messages[0] == "the first line has no column names, so columns are called c1 … c2"
    assert looked(tmp_path / "a.csv", "x,c2\n4.9,b\n5,c\n", label="c2").options.header is None
    assert looked(tmp_path / "a.csv", "4.9,b\n5,c\n", label="c2", header=True).options.header is True


def test_texts_of_json_lines_and_parquet(tmp_path):
    rows = [{"label": k % 2, "user": f"u{k}", "body": f"see you at {k}", "kind": "a b c", "n": k} for k in range(200)]
    found = looked(tmp_path / "a.jsonl", lines(*map(json.dumps, rows)))
    assert (found.options.text, found.options.numeric) == (("body",), ("n",))
    assert found.messages[0] == "columns: 2 categorical (user, kind), 1 numeric (n), 1 text (body)"
    assert looked(tmp_path / "a.jsonl", lines(*map(json.dumps, rows)), ignore=("body",)).options.text == ()
    assert looked(tmp_path / "a.jsonl", lines(*map(json.dumps, rows[:50]))).options.text == ("body",)
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert infer_options(tmp_path / "a.parquet", Options()).options.text == ("body",)
    parquet.write_table(pa.table({"label": [1], "indices": [[0]], "values": [[1.0]]}), tmp_path / "b.parquet")
    assert infer_options(tmp_path / "b.parquet", Options()).options.text == ()


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_label_that_was_not_met_is_an_error(tmp_path, monkeypatch, name):
    monkeypatch.setattr(heads, "SMALL", 10)
    labels = [*"abababab", "c"]
    shape = (lambda x: f"{x},1") if name == "a.csv" else (lambda x: json.dumps({"label": x, "x": 1}))
    (tmp_path / name).write_text(("label,x\n" if name == "a.csv" else "") + lines(*map(shape, labels)))
    stream = open_stream(tmp_path / name, look=4)
    assert stream.classes == ("a", "b")
    with pytest.raises(InvalidInputError, match=r"inferred; pass --classes to name all, or --grow-classes to allow"):
        list(stream.batches())
