"""Data sets in memory: parts, widths, and what is said where there is nothing."""

import numpy as np
import pytest

from thinstream import datasets
from thinstream.errors import InvalidInputError, InvalidParameterError, MissingDataError, UnknownNameError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("THINSTREAM_DATA", str(tmp_path))
    return tmp_path


def test_parts_have_the_published_width(folder):
    (folder / "a9a.train.svm").write_text("+1 1:1 7:2\n-1 2:1\n")
    (folder / "a9a.t").write_text("+1 3:1\n")
    X, y = datasets.load("a9a", "train")
    assert X.shape == (2, 123)
    assert X.dtype == np.float64
    assert X.toarray()[0, [0, 6]].tolist() == [1, 2]
    assert y.tolist() == [1, -1]
    X, y = datasets.load("a9a", "test", dtype="float32")
    assert X.shape == (1, 123)
    assert X.dtype == np.float32
    X, y = datasets.load("a9a")
    assert X.shape == (3, 123)
    assert y.tolist() == [1, -1, 1]


def test_parts_of_other_files_have_the_width_of_all(folder):
    (folder / "mine.train.csv").write_text("label,a\nyes,1\nno,2\n")
    (folder / "mine.test.csv").write_text("label,a\nno,3\n")
    X, y = datasets.load("mine", "test", classes=("no", "yes"), bits=4)
    assert X.shape == (1, 16)
    assert y.tolist() == [-1]
    (folder / "other.train.svm").write_text("+1 9:1\n")
    (folder / "other.test.svm").write_text("+1 2:1\n")
    assert datasets.load("other", "test")[0].shape == (1, 9)


def test_generated_rows_are_the_same_at_every_call():
    (one, y), (other, z) = datasets.load("sparse_gaussian", "train"), datasets.load("sparse_gaussian", "train")
    assert one.shape == (5000, 1000)
    assert (one != other).nnz == 0
    assert np.array_equal(y, z)
    assert datasets.load("sparse_gaussian")[0].shape == (6000, 1000)


def test_what_is_not_there_is_said(folder):
    with pytest.raises(MissingDataError, match=r"'a9a' .* download it with: thinstream datasets a9a --download"):
        datasets.load("a9a")
    with pytest.raises(UnknownNameError, match="did you mean 'a9a'"):
        datasets.load("a9")
    (folder / "rows.svm").write_text("+1 9:1\n")
    with pytest.raises(
        InvalidParameterError, match="split of the dataset 'rows' must be None, because there is only one part, got"
    ):
        datasets.load("rows", "test")
    with pytest.raises(InvalidParameterError, match="must be 'test' or 'train', got 'validation'"):
        datasets.load("sparse_gaussian", "validation")
    (folder / "rows.svm").write_text("")
    with pytest.raises(InvalidInputError, match="has no rows"):
        datasets.load("rows")
