"""Charts of sweeps, in every kind of file and for odd numbers."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.tune.sweeps import drawn, streamed
from thinstream.errors import UnknownNameError
from thinstream.tune.charts import Axis, cost_chart, linear_axis, log_axis, path_chart, path_table
from thinstream.tune.costs import study_costs
from thinstream.tune.drawing import draw
from thinstream.tune.page import page
from thinstream.tune.passes import Terms
from thinstream.tune.path import Sweep, sweep_stream
from thinstream.tune.study import Lane

X, Y = drawn()


@pytest.fixture(scope="module")
def path():
    return sweep_stream(streamed(X, Y), Terms("fsol"), Lane({}), Sweep(6, 0.02, 1e4))


@pytest.fixture(scope="module")
def curves():
    return study_costs(streamed(X, Y), Terms("fsol"), Lane({}), (0.1, 0.5, 0.9))


@pytest.mark.parametrize("kind", ["png", "svg", "html"])
def test_files_begin_as_they_should(kind, path, curves, tmp_path):
    head = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype html>"}[kind]
    for name, chart in (("path", path_chart(path, "error", 2)), ("costs", cost_chart(curves))):
        file = tmp_path / f"{name}.{kind}"
        draw(chart, file)
        assert file.read_bytes().startswith(head)
        assert 3_000 < file.stat().st_size < 400_000
    if kind == "svg":
        first = file.read_bytes()
        draw(chart, file)
        assert file.read_bytes() == first


def test_other_kinds_are_refused(path, tmp_path):
    with pytest.raises(UnknownNameError, match=r"'.png', '.svg' or '.html'"):
        draw(path_chart(path, "error", None), tmp_path / "path.pdf")


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


def test_the_page_has_a_point_with_words_for_every_number_and_loads_nothing(path):
    text = page(path_chart(path, "error", 2))
    tags = Tags()
    tags.feed(text)
    assert not tags.open
    assert tags.count["title"] == 1 + 3 * 6  # its own, and those of two curves and one
    assert tags.count["tr"] == 7
    assert text.count('class="picked"') == 1
    assert "script" not in tags.count
    assert not re.search(r"https?:|src=|href=|url\(|@import", text)
    assert "nan" not in text


@pytest.mark.parametrize("scoring", ["error", "balanced_accuracy", "weighted_sum", "cost"])
def test_every_metric_stays_within_its_axes(scoring, path):
    for panel in path_chart(path, scoring, 0).panels:
        for series in panel.series:
            arms = 0.0 if series.spread is None else series.spread
            for sign in (-1, 1):
                shares = [panel.y.share(value) for value in series.y + sign * arms]
                assert min(shares) > -1e-9
                assert max(shares) < 1 + 1e-9
            assert all(0 <= panel.x.share(value) <= 1 for value in series.x)
        for axis in (panel.x, panel.y):
            assert all(-1e-9 < axis.share(value) < 1 + 1e-9 for value, _ in axis.ticks)


@pytest.mark.parametrize(
    "nnz", [[0, 0], [1, 1], [40, 40], [8380, 9], [3_000_000, 0], [120, 70], [10, 9], [10**7, 10**6]], ids=str
)
def test_axes_of_any_number_of_weights_have_ticks_within_them(nnz, path):
    known = dataclasses.replace(path, nnz=np.array([nnz[0]] * 5 + nnz[1:]), n_features=10**7)
    for panel in path_chart(known, "error", 0).panels:
        for axis in (panel.x, panel.y):
            assert 1 <= len(axis.ticks) <= 11
            assert all(-1e-9 < axis.share(value) < 1 + 1e-9 for value, _ in axis.ticks)
        assert all(0 <= panel.x.share(value) <= 1 for value in panel.series[0].x)


def test_labels_of_one_class_leave_gaps_not_errors(tmp_path):
    path = sweep_stream(streamed(X, np.ones_like(Y)), Terms("fsol"), Lane({}), Sweep(3, 0.1, 1.0, holdout=0))
    chart = path_chart(path, "balanced_accuracy", path.pick("balanced_accuracy"))
    draw(chart, tmp_path / "gaps.png")
    assert "nan" not in page(chart)
    assert "–" in path_table(path)[1][0]


def test_the_table_shows_what_is_judged_by(path):
    head, rows = path_table(path, "cost")
    assert "held-out cost/row" in head
    assert len(rows) == 6
    assert {len(row) for row in rows} == {len(head)}
    assert "held-out cost/row" not in path_table(path)[0]


@pytest.mark.parametrize("values", [[1, 1], [0, 0], [-3, 5], [1e-9, 2e-9], [0.1, 1e9], [np.nan, 2], [np.nan]])
def test_linear_axes_hold_their_values(values):
    axis, finite = linear_axis("", np.array(values)), [value for value in values if value == value]
    assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value in finite)
    assert 2 <= len(axis.ticks) <= 8


def test_log_axes_name_few_decades():
    axis = log_axis("", np.array([3e-9, 4e8]))
    assert axis.low == pytest.approx(1e-9)
    assert axis.high == pytest.approx(1e9)
    assert len(axis.ticks) <= 9
    assert "1e6" in [text for _, text in axis.ticks]
    assert Axis("", 100.0, 1.0, (), log=True).share(10.0) == pytest.approx(0.5)
