"""Pictures and tables of sweeps, in every kind of file and for odd numbers."""

import builtins
import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.tuning.sweeps import drawn, streamed
from thinstream.errors import MissingPackageError, UnknownNameError
from thinstream.tuning.cost_curves import study_costs
from thinstream.tuning.figures import cost_figure, cost_table, draw_cost_curves, draw_path, path_figure, path_table
from thinstream.tuning.sparsity_path import Sweep, sweep_stream
from thinstream.tuning.study import StudyConfig, Trial

X, Y = drawn()


@pytest.fixture(scope="module")
def path():
    return sweep_stream(streamed(X, Y), StudyConfig("fsol"), Trial({}), Sweep(6, 0.02, 1e4))


@pytest.fixture(scope="module")
def curves():
    return study_costs(streamed(X, Y), StudyConfig("fsol"), Trial({}), (0.1, 0.5, 0.9))


@pytest.mark.parametrize("kind", ["svg", "html", pytest.param("png", marks=pytest.mark.slow)])
def test_files_begin_as_they_should_and_are_the_same_again(kind, path, curves, tmp_path):
    head = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype html>"}[kind]
    draws = {
        "path": lambda file: draw_path(path, "error", 2, file),
        "costs": lambda file: draw_cost_curves(curves, file),
    }
    for name, draw in draws.items():
        file = tmp_path / f"{name}.{kind}"
        draw(file)
        first = file.read_bytes()
        assert first.startswith(head)
        assert 3_000 < len(first) < 400_000
        draw(file)
        assert file.read_bytes() == first


def test_other_kinds_are_refused(path, tmp_path):
    with pytest.raises(UnknownNameError, match=r"'.png', '.svg' or '.html'"):
        draw_path(path, "error", None, tmp_path / "path.pdf")


@pytest.mark.parametrize("kind", ["png", "svg", "html"])
def test_without_matplotlib_the_error_says_what_to_install(kind, path, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackageError, match=r"pip install 'matplotlib"):
        draw_path(path, "error", None, tmp_path / f"path.{kind}")


class Tags(HTMLParser):
    """Counts tags, and sees that what is opened is closed."""

    def __init__(self):
        super().__init__()
        self.count, self.open = {}, []

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_has_the_picture_and_the_table_and_loads_nothing(path, tmp_path):
    draw_path(path, "error", 2, tmp_path / "path.html")
    text = (tmp_path / "path.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert not tags.open
    assert tags.count["svg"] == 1
    assert tags.count["tr"] == 7
    assert text.count('class="picked"') == 1
    assert "script" not in tags.count
    # names of SVG's own namespaces are no addresses, and what it refers to is in it
    plain = re.sub(r'xmlns(:\w+)?="[^"]*"|xlink:href="#[^"]*"|url\(#[^)]*\)', "", text)
    assert not re.search(r"https?:|src=|href=|url\(|@import", plain)
    assert "nan" not in text
    assert "error against sparsity" in text  # text is text


@pytest.mark.parametrize("scoring", ["accuracy", "error", "balanced_accuracy", "weighted_sum", "cost", "f1"])
def test_every_metric_and_its_picked_model_stay_within_the_axes(scoring, path):
    for axes in path_figure(path, scoring, 0).axes:
        for line in axes.lines:
            for values, (low, high) in ((line.get_xdata(), axes.get_xlim()), (line.get_ydata(), axes.get_ylim())):
                found = np.asarray(values, dtype=float)
                assert np.all((min(low, high) <= found) & (found <= max(low, high)))
        assert "picked" in [line.get_label() for line in axes.lines]


@pytest.mark.parametrize(
    "nnz", [[0, 0], [1, 1], [40, 40], [8380, 9], [3_000_000, 0], [120, 70], [10, 9], [10**7, 10**6]], ids=str
)
def test_axes_of_any_number_of_weights_have_ticks_within_them(nnz, path):
    known = dataclasses.replace(path, nnz=np.array([nnz[0]] * 5 + nnz[1:]), n_features=10**7)
    left, right = path_figure(known, "error", 0).axes
    for axis, limits in ((left.xaxis, left.get_xlim()), (right.yaxis, right.get_ylim())):
        places = axis.get_ticklocs()
        assert 1 <= len(places) <= 11
        assert min(limits) <= min(places)
        assert max(places) <= max(limits)
        assert [text.get_text() for text in axis.get_ticklabels()].count("") == 0
    assert left.get_xlim()[0] > left.get_xlim()[1]  # sparser to the right


def test_labels_of_one_class_leave_gaps_not_errors(tmp_path):
    path = sweep_stream(streamed(X, np.ones_like(Y)), StudyConfig("fsol"), Trial({}), Sweep(3, 0.1, 1.0, holdout=0))
    for kind in ("png", "html"):
        draw_path(path, "balanced_accuracy", path.pick("balanced_accuracy"), tmp_path / f"gaps.{kind}")
    assert "nan" not in (tmp_path / "gaps.html").read_text()
    assert "–" in path_table(path).rows[0]


def test_the_table_shows_what_is_judged_by(path):
    head, rows = path_table(path, "cost")
    assert "held-out cost/row" in head
    assert len(rows) == 6
    assert {len(row) for row in rows} == {len(head)}
    assert "held-out cost/row" not in path_table(path).head


def test_cost_curves_have_both_of_their_panels(curves):
    for axes in cost_figure(curves).axes:
        assert [line.get_label() for line in axes.lines] == [
            "with these costs",
            "without costs",
            "best constant prediction",
        ]
        assert axes.get_xlim() == (0, 1)
    head, rows = cost_table(curves)
    assert {len(row) for row in rows} == {len(head)}
    assert [row[0] for row in rows] == ["0.1", "0.5", "0.9"]
