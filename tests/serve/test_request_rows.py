"""Lines of requests: libsvm, JSON, VW and CSV, with their labels and without."""

import json

import numpy as np
import pytest

from thinstream.data.labels import Classes, GrowingClasses
from thinstream.data.opening import open_stream
from thinstream.errors import InvalidInputError
from thinstream.models.file import write
from thinstream.models.model import Model
from thinstream.serve import Limits
from thinstream.serve.folders import ServerPaths
from thinstream.serve.request_rows import RowReader
from thinstream.serve.requests import read_body
from thinstream.serve.served_models import ServedModels
from thinstream.serve.shared_memory import publish
from thinstream.serve.v2 import rows_of
from thinstream.training.job import learn_stream

HASHED = {"hashing": {"bits": 12, "signed": False}}
TABLE = 'kind,size,colour\nspam,3,"red, dark"\nham,1.5,blue\n'


def reader(classes, space=None, **limits):
    return RowReader(Model.fresh("arow", classes, feature_space=space), Limits(**limits))


@pytest.fixture(scope="module")
def of_a_table(tmp_path_factory):
    """A model that has learned from a table, and the rows of that."""
    path = tmp_path_factory.mktemp("table") / "mail.csv"
    path.write_text(TABLE)
    stream = open_stream(path, label="kind", classes=("ham", "spam"), bits=12)
    model = learn_stream(Model.fresh("arow", Classes("ham", "spam"), feature_space=stream.feature_space), stream)
    return model, next(iter(stream.batches()))


def test_cells_are_learned_as_those_of_the_files_were(of_a_table):
    model, rows = of_a_table
    _, *lines = TABLE.encode().splitlines()
    batch, labels = RowReader(model, Limits()).lines(b"\n".join(lines), labelled=True)
    assert labels == ["spam", "ham"]
    assert batch.indices.tolist() == rows.indices.tolist()
    assert batch.values.tolist() == rows.values.tolist()
    unlabelled, nothing = RowReader(model, Limits()).lines(b'3,"red, dark"\n1.5,blue', labelled=False)
    assert nothing is None
    assert unlabelled.indices.tolist() == rows.indices.tolist()


@pytest.mark.parametrize(
    ("line", "message"),
    [(b"eggs,3,red", "eggs"), (b"spam,3", "cells"), (b"spam,3,red,4", "cells"), (b'spam,3,"red', "quote")],
)
def test_bad_cells(of_a_table, line, message):
    with pytest.raises(InvalidInputError, match=message):
        RowReader(of_a_table[0], Limits()).lines(line, labelled=True)


MAIL = [{"subject": "free lunch", "size": 3}, {"subject": "minutes", "size": 1.5}]
FORM = "application/x-www-form-urlencoded"  # what curl -d says


@pytest.fixture
def of_objects():
    """For a model of JSON Lines with one column of text."""
    return reader(Classes("ham", "spam"), {**HASHED, "text": ["subject"]})


def test_lines_of_objects_are_objects_wherever_they_stand(of_objects):
    """As values of x, as BYTES, or as the body: not words of the model's one text."""
    expected, lines = of_objects.rows(MAIL), [json.dumps(row) for row in MAIL]
    tensor = np.array(lines, dtype=object)
    text_ = [read_body(json.dumps({"x": lines}).encode(), "application/json").rows(of_objects, labelled=False).batch]
    text_ += [read_body("\n".join(lines).encode(), "text/plain").rows(of_objects, labelled=False).batch]
    text_ += [rows_of({"lines": tensor}, of_objects), of_objects.rows(lines)]
    one = of_objects.rows(lines[0])
    for result in text_:
        assert result.indices.tolist() == expected.indices.tolist()
        assert result.values.tolist() == expected.values.tolist()
    assert one.indices.tolist() == expected.indices[: len(one.indices)].tolist()
    labelled = of_objects.rows(json.dumps({"label": "ham", **MAIL[0]}))  # a label is no feature
    assert labelled.indices.tolist() == one.indices.tolist()


@pytest.mark.parametrize("text", ["garbage", "free lunch", '{"subject": ', '["free"]'])
@pytest.mark.parametrize("labelled", [False, True])
def test_lines_of_other_formats_are_refused(of_objects, text, labelled):
    """By those who predict as by those who teach, also with the content type that curl gives."""
    for kind in ("text/plain", FORM):
        with pytest.raises(InvalidInputError):
            read_body(text.encode(), kind).rows(of_objects, labelled)
    if not text.startswith("{"):
        with pytest.raises(InvalidInputError, match="lines must be JSON objects or in VW format"):
            of_objects.lines(text.encode(), labelled)
    with pytest.raises(InvalidInputError):
        of_objects.rows(text)


def test_a_label_that_is_missing():
    """It is no label of its own, be it one row's or all rows'."""
    named = reader(Classes(-1, 1), space=HASHED)
    assert named.lines(b"1 |a x\n-1 |a y", labelled=True)[1] == [1, -1]
    with pytest.raises(InvalidInputError, match="row 1 has no label, and other rows have one"):
        named.lines(b"1 |a x\n|a y", labelled=True)
    with pytest.raises(InvalidInputError, match="need labels"):
        named.lines(b"|a x", labelled=True)


def test_indices_beyond_the_limit_are_refused_at_once():
    """Without a parser for long ones, which would have to be compiled while others wait."""
    numbered = reader(Classes(-1, 1), width=100)
    assert numbered.lines(b"1 100:1", labelled=True)[0].n_features == 100
    for text in (b"1 101:1", b"1 99999999999999:1"):
        with pytest.raises(InvalidInputError, match="an index must be at most 100, got"):
            numbered.lines(text, labelled=True)


@pytest.mark.parametrize(
    ("text", "space"),
    [
        (b"7 1:1\n2.5 3:1\n", None),
        (b'{"label": 7, "a": 1}\n{"label": 2.5, "b": 1}', HASHED),
        (b"7 |a x\n2.5 |a y", HASHED),
    ],
)
def test_new_labels(text, space):
    assert reader(GrowingClasses(), space).lines(text, labelled=True)[1] == [7, 2.5]


WORDS = " ".join(f"w{k}" for k in range(40))
CROSSED = HASHED | {"text": ["a", "b"], "cross": [["a", "b"]]}
CHARS = HASHED | {"text": ["a"], "chars": [2, 6]}


def in_every_form(read, rows):
    """The rows as JSON, values, lines, and lines with labels."""
    lines = b"\n".join(json.dumps(row).encode() for row in rows)
    yield lambda: read.raw(json.dumps(rows).encode())
    yield lambda: read.some(rows)
    yield lambda: read.lines(lines, labelled=False)
    yield lambda: read.lines(b"\n".join(json.dumps({"label": 1, **row}).encode() for row in rows), labelled=True)


@pytest.mark.parametrize(
    ("space", "size", "features"), [(CROSSED, 20, 20 * (80 + 1600)), (CHARS, 5, 5 * 5 * len(WORDS))]
)
def test_features_are_counted_before_they_are_created(space, size, features):
    """Crosses and n-grams of short rows may be many: refused with the numbers, and before memory is allocated."""
    row = {"a": WORDS, "b": WORDS} if "cross" in space else {"a": WORDS}
    read = reader(Classes(0, 1), space, request_features=features - 1)
    for read_rows in in_every_form(read, [row] * (size - 1)):
        assert read_rows()
    for read_rows in in_every_form(read, [row] * size):
        with pytest.raises(
            InvalidInputError, match=rf"{features - 1:,} features in total, and with their .* {features:,}"
        ):
            read_rows()


def test_features_of_a_request():
    """Those of all rows together."""
    read = reader(Classes(0, 1), request_features=5)
    assert len(read.lines(b"1:1 2:1\n3:1 4:1 5:1", labelled=False)[0]) == 2
    with pytest.raises(InvalidInputError, match="may have at most 5 features together, got 6"):
        read.lines(b"1:1 2:1 6:1\n3:1 4:1 5:1", labelled=False)
    with pytest.raises(InvalidInputError, match="may have at most 5 features together, got 6"):
        read.dense(np.ones((2, 3)))


def test_a_model_that_would_become_too_large(tmp_path):
    """A full covariance has a number for each pair of features; other models keep the features that occur."""
    paths = ServerPaths(tmp_path / "data")
    with paths.held():
        for name, covariance in (("full", "full"), ("plain", "diagonal")):
            model = Model.fresh("arow", Classes(0, 1), covariance=covariance)
            paths.folder(name).mkdir()
            write(paths.model(name), model)
            publish(paths.weights(name), model, version=1)
        models = ServedModels(paths, Limits(model_bytes=1 << 20))
        assert models("full")[0].reader.rows({"700": 1.0}).n_features == 700
        with pytest.raises(InvalidInputError, match=r"numbers may be at most 72\d, got 16,777,216"):
            models("full")[0].reader.rows({"16777216": 1.0})
        assert models("plain")[0].reader.rows({"16777216": 1.0}).n_features == 1 << 24
        paths.clear()
