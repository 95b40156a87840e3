"""``train --monitor`` and ``--plot``: where the stream changed."""

import json
import re

import numpy as np
import pytest

from thinstream.models.file import read
from thinstream.training.monitors import DriftWatch
from thinstream.training.picture import _training_figure as _figure


@pytest.fixture
def turning(tmp_path, monkeypatch):
    """A stream whose concept turns around after 1,500 rows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    lines = []
    for i in range(3000):
        x = rng.normal(size=4)
        lines.append(
            f"{1 if (x.sum() > 0) == (i < 1500) else -1} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x))
        )
    (tmp_path / "turn.svm").write_text("\n".join(lines) + "\n")
    return tmp_path / "turn.svm"


def test_a_line_where_the_error_has_risen(turning, thin):
    lines = thin("train", turning, "-a", "fsol", "--monitor", "adwin,ddm").splitlines()
    found = [line for line in lines if "the error has risen" in line]
    assert any(re.search(r"^ adwin: .*\(detected at 1,5\d\d\)$", line) for line in found)
    assert any(re.search(r"^ ddm: .*\(detected at 1,5\d\d\)$", line) for line in found)
    said = thin("train", turning, "-a", "fsol", "--monitor", "adwin", "--json").splitlines()
    changes = [each for each in map(json.loads, said) if "monitor" in each]
    assert changes[0]["monitor"] == "adwin"
    assert 1500 < changes[0]["risen_at"] < 1600


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_picture(turning, thin, tmp_path, kind):
    pytest.importorskip("matplotlib", reason="matplotlib, of the extra plot, is not installed")
    for name in ("one", "two"):
        thin("train", turning, "-a", "fsol", "--monitor", "adwin", "--plot", f"{name}.{kind}", "-q")
    drawn = (tmp_path / f"one.{kind}").read_bytes()
    assert drawn == (tmp_path / f"two.{kind}").read_bytes()
    if kind == "svg":
        assert drawn.count(b"clip-path") > 3
        assert "chart              one.svg\n" in thin("train", turning, "-a", "fsol", "--plot", "one.svg")


def test_a_few_rows_at_the_end_make_no_spike():
    pytest.importorskip("matplotlib", reason="matplotlib, of the extra plot, is not installed")

    def drawn_to(rows):
        watch = DriftWatch()
        watch.update(np.arange(rows) >= 4128)
        axes = _figure(watch, "a run", None, None).axes[0]
        return axes.lines[0].get_xdata()[-1], axes.get_xlim()[1]

    assert drawn_to(4128) == (4128, 4128)  # in stretches of 48 rows
    assert drawn_to(4136) == (4128, 4136)
    assert drawn_to(4144) == (4144, 4144)


def test_what_cannot_be_watched(turning, thin):
    for options, said in (
        (["--monitor", "cusum"], "--monitor must be 'adwin', 'ddm' or 'page-hinkley', got 'cusum'"),
        (["--monitor", "ddm", "--engine", "local"], "--monitor and --plot cannot be used with --engine"),
        (["--plot", "a.gif"], "a.gif: the extension must be '.png' or '.svg', got '.gif'"),
        (["--monitor", "ddm", "-a", "bcw"], "BCW is a batch method and has no progressive error"),
    ):
        assert said in thin("train", turning, *options, code=2).errors


@pytest.mark.slow  # lanes of models that forget are compiled
def test_forgetting_follows_and_tuning_finds_how_fast(turning, thin):
    thin("train", turning, "-a", "arow", "-m", "never.ts", "-q")
    thin("train", turning, "-a", "arow", "--half-life", "100", "-m", "forgets.ts", "-q")
    never, forgets = (read(name).learner for name in ("never.ts", "forgets.ts"))
    assert forgets.parameters["half_life"] == 100
    assert 3 * forgets.n_mistakes < never.n_mistakes
    *_, last = thin(
        "tune", turning, "-a", "arow", "-g", "half-life=none,100,1000,3000", "--progressive", "-m", "best.ts", "--json"
    ).splitlines()
    assert json.loads(last)["best"] == {"half_life": 100}
    assert "--half-life 100" in json.loads(last)["command"]
    assert read("best.ts").learner.weights().tobytes() == forgets.weights().tobytes()


@pytest.mark.slow
def test_half_lives_on_a_path_and_over_a_stop(turning, thin):
    thin(
        "path",
        turning,
        "-a",
        "fsol",
        "--half-life",
        "200",
        "--l1",
        "1e-3..1",
        "-n",
        "4",
        "--max-nnz",
        "4",
        "-m",
        "path.ts",
    )
    assert read("path.ts").learner.parameters["half_life"] == 200
    thin("train", turning, "-a", "fsol", "--half-life", "200", "-m", "whole.ts", "-q")
    lines = turning.read_text().splitlines(keepends=True)
    (turning.parent / "head.svm").write_text("".join(lines[:1234]))
    (turning.parent / "tail.svm").write_text("".join(lines[1234:]))
    thin("train", "head.svm", "-a", "fsol", "--half-life", "200", "-m", "head.ts", "-q")
    thin("train", "tail.svm", "--from", "head.ts", "-m", "parts.ts", "-q")
    whole, parts = (read(name).learner.outputs.one.memory for name in ("whole.ts", "parts.ts"))
    assert [array.tobytes() for array in whole] == [array.tobytes() for array in parts]


def test_what_cannot_forget_is_told(turning, thin):
    for command, options, said in (
        (
            "train",
            ["-a", "sop", "--half-life", "5"],
            "no option --half-life. Its options are --a, --covariance, --update-on",
        ),
        (
            "train",
            ["-a", "ssol", "--half-life", "5"],
            "SSOL: half_life needs covariance='diagonal' and diagonal='exact'",
        ),
        ("train", ["-a", "fsol", "--half-life", "0"], "FSOL: --half-life must be a number ≥ 1, or None, got 0"),
        ("tune", ["-a", "sop", "-g", "half-life=5,6"], "SOP has no parameter 'half_life'"),
    ):
        assert said in thin(command, turning, *options, code=2).errors
    said = thin("train", turning, "-a", "fsol", "--half-life", "5", "--engine", "local", code=1).errors
    assert "FSOL with half_life cannot be merged in rounds" in said


def test_the_picture_has_the_base_rate_and_no_member_that_never_ran():
    """A member for few features is left out before the first row: it has no error, which is not an error of 0 %."""
    pytest.importorskip("matplotlib")
    from thinstream.algorithms.auto import Member
    from thinstream.models.blend import Record

    watch = DriftWatch(())
    rng = np.random.default_rng(0)
    record = Record([Member("fsol", {}), Member("arow", {}), Member("scw", {})])
    for end in (64, 128, 256):
        y = np.where(rng.random(end // 2) < 0.5, 1, -1).astype(np.int8)
        watch.update(rng.random(len(y)) < 0.2)
        record.count(np.column_stack([y, y, y]).astype(float), y > 0)
        record.note(end, 3, np.array([0.5, 0.5, 0.0]))
    record.until[1], record.until[2] = -2, 64
    top, errors, _ = _figure(watch, "a run", record, 0.3).axes
    assert "the best constant prediction: 30.00%" in [line.get_label() for line in top.lines]
    lines = {line.get_label(): line.get_ydata() for line in errors.lines}
    assert not [name for name in lines if name.startswith("AROW")]
    assert np.isnan(lines["SCW"]).tolist() == [False, True, True]
    for axes in (top, errors):
        assert axes.get_legend().get_bbox_to_anchor().transformed(axes.transAxes.inverted()).y1 < 0
