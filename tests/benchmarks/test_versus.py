"""The side-by-side benchmark: its logic on small input, and a smoke run of the tools that are installed."""

import lzma
import subprocess
import sys

import numpy as np
import pytest
from benchmarks.versus import accuracy, judging, keeping, page_auto, tried, untuned
from benchmarks.versus.__main__ import main
from benchmarks.versus.accuracy import _packed, wrong_rows
from benchmarks.versus.cells import gathered, kept
from benchmarks.versus.contest import Candidate, Contest, balanced_accuracy, error, open_contest
from benchmarks.versus.drawing import frontier
from benchmarks.versus.sets import SETS, as_wabbit, prepared, unit_row
from benchmarks.versus.tools import TOOLS, ours, ours_more, ours_running
from benchmarks.versus.tools.sgd import read

FEATURES = 30


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A made-up farm-ads of 400 rows, learnable, and an elec2 in time."""
    rng = np.random.default_rng(3)
    folder = tmp_path / "data"
    folder.mkdir()
    truth = rng.normal(size=FEATURES)
    for name in ("farm-ads", "elec2", "mammography"):
        lines = []
        for _ in range(400):
            chosen = np.sort(rng.choice(FEATURES, 6, replace=False))
            values = rng.integers(1, 9, 6) / 8
            sign = "+1" if truth[chosen] @ values > 0 else "-1"
            lines.append(f"{sign} " + " ".join(f"{j + 1}:{v}" for j, v in zip(chosen, values)))
        with lzma.open(folder / f"{name}.svm.xz", "wt") as file:
            file.write("\n".join(lines) + "\n")
    monkeypatch.setenv("THINSTREAM_DATA", str(folder))
    return tmp_path


def test_every_tool_has_the_candidates_it_says(data):
    contest = open_contest("farm-ads", data / "text", smoke=False)
    counts = {name: len(tool.candidates(contest)) for name, tool in TOOLS.items()}
    assert counts == {
        "thinstream": 24,
        "Vowpal Wabbit": 24,
        "scikit-learn": 24,
        "River": 12,
        "LIBSOL": 0,
        "liblinear": 8,
    }
    narrow = TOOLS["thinstream"].candidates(open_contest("mammography", data / "text", smoke=False))
    assert len(narrow) == 24
    assert len({str(one) for one in narrow}) == 24


def test_candidates_survive_as_text():
    one = Candidate("scw", {"C": 0.1, "intercept": True}, unit=True)
    assert Candidate.of(one.plain()) == one
    assert str(one) == "scw C=0.1 intercept=True unit rows"


def test_the_files_hold_the_same_rows(data):
    files = prepared("farm-ads", data / "text")
    train, test = files("train", False).read_bytes().splitlines(), files("test", False).read_bytes().splitlines()
    assert (len(train), len(test)) == (280, 120)
    with lzma.open(data / "data" / "farm-ads.svm.xz", "rb") as file:
        assert sorted(train + test) == sorted(file.read().splitlines())
    assert files("train", False, "vw").read_bytes().splitlines() == [as_wabbit(line) for line in train]
    X, _ = read(files("train", True))
    np.testing.assert_allclose(np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel()), 1, rtol=1e-5)


def test_rows_in_time_keep_their_order_and_the_last_fifth_has_no_labels(data):
    files = prepared("elec2", data / "text")
    with lzma.open(data / "data" / "elec2.svm.xz", "rb") as file:
        lines = file.read().splitlines()
    assert files("train", False).read_bytes().splitlines() == lines[:280]
    trial = files("trial", False, "vw").read_bytes().splitlines()
    assert trial[:224] == [as_wabbit(line) for line in lines[:224]]
    assert all(line.startswith(b" |") for line in trial[224:])


def test_rows_without_features_stay():
    assert unit_row(b"-1") == b"-1"
    assert as_wabbit(b"-1") == b"-1 | "


def test_validation_takes_the_later_half_or_the_last_fifth():
    y = np.zeros(10, bool)
    scores = np.array([1.0] * 5 + [-1.0] * 4 + [1.0])
    anywhere = Contest(SETS["farm-ads"], None, y, y)
    assert anywhere.validation(scores) == 20
    in_time = Contest(SETS["elec2"], None, y, y)
    assert (in_time.cut, in_time.validation(scores)) == (8, 50)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["farm-ads", "elec2"])
def test_lanes_score_as_single_runs_do(data, name):
    """The trial of a candidate among others is that of a learner of its own, which stands still behind the cut."""
    from thinstream.data import open_stream
    from thinstream.lanes.learner import Learner

    contest, tool = open_contest(name, data / "text", smoke=False), TOOLS["thinstream"]
    candidates = [Candidate("arow", {"r": 1.0}), Candidate("arow", {"r": 0.1})]
    trials = tool.trials(contest, candidates)
    model, found = Learner("arow", n_features=0, grow=True, r=0.1), []
    for batch in open_stream(str(contest.files("train", False))).batches():
        found += [model.learn(batch.until(contest.cut)), model.scores(batch.after(contest.cut))]
    np.testing.assert_array_equal(trials[1], np.concatenate(found))


def test_a_timed_process_imports_no_tool_before_the_clock_starts():
    asked = "import sys, benchmarks.versus.alone; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(
        subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout.split()
    )
    assert "numpy" in loaded
    assert not loaded & {"thinstream", "numba", "sklearn", "scipy", "river", "vowpalwabbit", "liblinear"}


def test_cells_depend_on_lists_and_limits(monkeypatch, tmp_path):
    cell = ("farm-ads", "scikit-learn", tmp_path, False)
    before = repr(accuracy.state(*cell))
    assert before == repr(accuracy.state(*cell))
    monkeypatch.setattr(accuracy, "TRIAL_ROWS", 7)
    assert repr(accuracy.state(*cell)) != before
    monkeypatch.undo()
    monkeypatch.setattr(type(TOOLS["scikit-learn"]), "settings", ())
    assert repr(accuracy.state(*cell)) != before


def test_what_was_tried_has_24_more_of_each():
    for first, more in ((ours.WIDE, ours_more.MORE_WIDE), (ours.NARROW, ours_more.MORE_NARROW)):
        assert len({str(one) for one in [*first, *more]}) == 48
    sweep = [*TOOLS["thinstream"].sweep(ours.WIDE), *ours_more.more_sparse(ours.WIDE)]
    assert len({str(one) for one in sweep}) == 48


def test_a_mean_is_that_of_scaled_models(data):
    contest = open_contest("farm-ads", data / "text", smoke=False)
    some = [Candidate("fsol", {"eta": eta}) for eta in (1.0, 0.1)]
    other = Candidate("fsol", {"eta": 1.0}, unit=True)
    trials = TOOLS["thinstream"].trials(contest, some)
    row = tried.Tested(contest).mean("x", [(some[0], trials[0]), (other, trials[0]), (some[1], trials[1])])
    scores = sum(
        TOOLS["thinstream"].model(contest, one, ours_running.learned(contest, one)).scores / np.abs(trial[140:]).mean()
        for one, trial in zip(some, trials, strict=True)
    )
    assert row["error"] == error(scores, contest.y_test)
    assert "unit" not in row["candidate"]


def test_pruning_nothing_away_changes_nothing(data):
    contest, one = open_contest("farm-ads", data / "text", smoke=False), Candidate("arow", {"r": 1.0}, unit=True)
    model = TOOLS["thinstream"].model(contest, one, ours_running.learned(contest, one))
    row = tried._pruned(contest, one, FEATURES)
    assert (row["error"], row["nnz"]) == (error(model.scores, contest.y_test), FEATURES)
    assert tried._pruned(contest, one, 4)["nnz"] == 4


def test_metrics():
    y = np.array([True, True, False, False, False])
    scores = np.array([2.0, -1.0, 0.0, -1.0, 3.0])
    assert error(scores, y) == 40
    assert balanced_accuracy(scores, y) == pytest.approx(50 * (1 / 2 + 2 / 3))
    assert np.isnan(balanced_accuracy(scores, np.ones(5, bool)))


def test_wrong_rows_are_packed_and_compared():
    rng = np.random.default_rng(0)
    a, b = rng.random(1000) < 0.2, rng.random(1000) < 0.3
    np.testing.assert_array_equal(wrong_rows(_packed(a)), a)
    expected = (a.astype(float) - b).std() / np.sqrt(1000)
    assert judging.paired_error(int((a & ~b).sum()), int((b & ~a).sum()), 1000) == pytest.approx(expected)


def row(tool, column="tuned", **more):
    return {"set": "farm-ads", "tool": tool, "column": column, "candidate": "x", "validation_rows": 100, **more}


def test_the_best_peer_is_of_one_pass_and_not_us():
    rows = [row("thinstream", error=1.0), row("River", error=3.0), row("Vowpal Wabbit", error=2.0)]
    assert judging.best_peer([*rows, row("liblinear", error=0.5)], "farm-ads")["tool"] == "Vowpal Wabbit"


def test_the_sparse_model_is_the_smallest_within_a_standard_error_of_validation():
    peer = row("River", validation=10.0)  # its standard error is 3
    sweep = [
        row("thinstream", "sparse", nnz=0, validation=5.0),
        row("thinstream", "sparse", nnz=10, validation=13.5),
        row("thinstream", "sparse", nnz=20, validation=12.9),
        row("thinstream", "sparse", nnz=30, validation=9.0),
        row("River", "sparse", nnz=1, validation=1.0),
    ]
    assert judging.sparse_pick(sweep, "farm-ads", peer)["nnz"] == 20
    assert judging.sparse_pick(sweep, "farm-ads", row("River", validation=1.0))["nnz"] == 30


def test_verdicts():
    assert judging.verdict({"difference": -1.0, "difference_se": 0.4}) == "below"
    assert judging.verdict({"difference": 0.0, "difference_se": 0.4}) == "at or below"
    assert judging.verdict({"difference": 1.0, "difference_se": 0.4}) == "**above**"
    thin = {"nnz": 10, "peer_nnz": 100, "difference": 0.3, "difference_se": 0.4}
    assert judging.thin_enough(thin)
    assert not judging.thin_enough(thin | {"nnz": 11})
    assert not judging.thin_enough(thin | {"difference": 0.5})


def test_the_frontier_drops_what_is_larger_and_worse():
    assert frontier([(5, 2.0), (1, 9.0), (7, 2.0), (3, 10.0)]) == [(1, 9.0), (5, 2.0)]


def test_cells_are_made_once_and_again_when_their_meaning_changes(tmp_path):
    made = []

    def work():
        made.append(1)
        return [{"error": 1.5}]

    for state, times in ((1, 1), (1, 1), (2, 2)):
        assert kept(tmp_path / "accuracy", "a9a River", state, work) == [{"error": 1.5}]
        assert len(made) == times
    assert gathered(tmp_path) == {"accuracy": [{"error": 1.5}]}


def test_the_table_keeps_what_was_not_measured_again(tmp_path):
    old = [row("River", error=1.0), row("thinstream", error=2.0)]
    keeping.save(tmp_path / "x.csv", keeping.merged(old, [row("River", error=0.25, wrong="8:AA==")]))
    found = {one["tool"]: one for one in keeping.load(tmp_path / "x.csv")}
    assert (found["River"]["error"], found["thinstream"]["error"]) == (0.25, 2.0)
    assert "wrong" not in found["River"]


@pytest.mark.slow  # every algorithm of the portfolio is compiled
def test_auto_is_measured_as_it_comes(data, monkeypatch):
    contest, tool = open_contest("farm-ads", data / "text", smoke=False), TOOLS["scikit-learn"]
    best = accuracy.finished(contest, tool, tool.candidates(contest)[0], "tuned")
    keeping.save(data / "table.csv", [{"set": "farm-ads", "tool": tool.name, **best}])
    monkeypatch.setattr(untuned, "TABLE", data / "table.csv")
    found, peer = untuned.measured("farm-ads", "thinstream", data, False)
    assert (peer["tool"], peer["column"], peer["wrong"]) == (tool.name, "auto peer", best["wrong"])
    assert found["column"] == "auto"
    assert found["error"] < 35
    assert found["log_loss"] < 0.7
    assert len(wrong_rows(found["wrong"])) == len(contest.y_test)
    assert np.mean(wrong_rows(found["wrong"])) * 100 == pytest.approx(found["error"])


def test_the_page_counts_where_auto_is_at_or_below_the_peer():
    wrong = {share: _packed(np.arange(100) < share) for share in (5, 10, 15)}
    rows = [
        row("River", error=10.0, nnz=9, validation=9.0, wrong=wrong[10]),
        row("thinstream", error=15.0, nnz=9, wrong=wrong[15]),
        row("thinstream", "auto", error=5.0, nnz=9, log_loss=0.2, lane_log_loss=0.1, wrong=wrong[5]),
        row("River", "auto peer", error=10.0, nnz=9, wrong=wrong[10]),
    ]
    text = page_auto.errors([*rows, *judging.differences(rows)])
    told = " ".join(text.split())
    assert "tool on 1 of 1 datasets, and above by more than two standard errors on 0" in told
    assert "below it on 0 of 1" in told
    assert "| farm-ads | River: 10.00 | 15.00 | **5.00** | -5.00 ± 2.18 | below | 0.2000 | 0.1000 |" in text
    assert page_auto.errors(rows) == ""


@pytest.mark.parametrize("tool", [name for name in TOOLS if name not in ("thinstream", "LIBSOL")])
def test_peers_learn_what_can_be_learned(data, tool):
    if TOOLS[tool].missing():
        pytest.skip(TOOLS[tool].missing())
    contest, peer = open_contest("farm-ads", data / "text", smoke=False), TOOLS[tool]
    for candidate in (peer.default, peer.candidates(contest)[-1]):
        learned = peer.learn(contest, candidate, data / "model")
        model = peer.model(contest, candidate, learned)
        assert len(model.scores) == 120
        assert 10 <= model.nnz <= FEATURES + 1
    assert error(model.scores, contest.y_test) < 35
    assert contest.validation(peer.trials(contest, [candidate])[0]) < 40


def test_a_smoke_run_writes_the_page(data, capsys):
    out = data / "docs" / "versus"
    arguments = ["--sets", "farm-ads", "--tools", "scikit-learn", "--scratch", str(data / "build"), "--out", str(out)]
    main([*arguments, "--smoke"])
    page = (data / "docs" / "versus.md").read_text()
    assert page.index("Read these caveats") < page.index("Machine:") < page.index("## ")
    assert "mean nothing" in page
    assert {one["column"] for one in keeping.load(data / "docs" / "versus.csv")} >= {"defaults", "tuned", "sparse"}
    assert (data / "docs" / "versus.png").exists()
    main([*arguments, "--smoke", "--pages"])  # from what is kept and the table that is there
    assert (data / "docs" / "versus.md").read_text() == page
    with pytest.raises(SystemExit, match="there is no 'nothing'"):
        main(["--sets", "nothing"])
