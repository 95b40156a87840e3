"""Lines of requests: libsvm, JSON, VW and CSV, with their labels and without."""

import pytest

from thinstream.errors import InvalidInputError
from thinstream.learners import Classes
from thinstream.learners.growing_classes import GrowingClasses
from thinstream.models.model import Model
from thinstream.serve.reading import RowReader
from thinstream.serve.settings import Limits
from thinstream.streams.opening import open_stream
from thinstream.training import learn_stream

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


def test_a_label_that_is_missing():
    """It is no label of its own, be it one row's or all rows'."""
    named = reader(Classes(-1, 1), space=HASHED)
    assert named.lines(b"1 |a x\n-1 |a y", labelled=True)[1] == [1, -1]
    with pytest.raises(InvalidInputError, match="row 1 has no label, others have"):
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
def test_labels_that_nobody_knew(text, space):
    assert reader(GrowingClasses(), space).lines(text, labelled=True)[1] == [7, 2.5]
