"""``--threshold``, ``--recall`` and ``--false-alarms``: chosen as rows are learned, kept, and held on new rows."""

import json
from pathlib import Path

import numpy as np
import pytest

from thinstream.models.file import read


def rows_of(seed, n, share=0.2):
    """Rows whose classes overlap."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, 1, -1)
    X = rng.normal(size=(n, 6)) + 0.6 * (y > 0)[:, None]
    return "".join(
        f"{label} " + " ".join(f"{j + 1}:{x:.4f}" for j, x in enumerate(row)) + "\n"
        for label, row in zip(y, X, strict=True)
    )


@pytest.fixture
def overlapping(there):
    Path("train.svm").write_text(rows_of(1, 16_000))
    Path("test.svm").write_text(rows_of(2, 16_000))
    return "train.svm"


def evaluated(thin, model, data="test.svm"):
    return json.loads(thin("evaluate", data, "-m", model, "--json"))


@pytest.mark.parametrize("algorithm", ["arow", "ftrlproximal"])
def test_the_promise_holds_on_rows_held_out(algorithm, overlapping, thin):
    """Within four standard deviations of what was chosen on, and of what it is held on."""
    for option, metric, share, expected in (
        ("--recall", "recall", 0.9, 0.9),
        ("--false-alarms", "specificity", 0.05, 0.95),
        ("--precision", "precision", 0.6, 0.6),
    ):
        said = thin("train", overlapping, "-a", algorithm, option, share, "-m", "m.ts")
        assert "threshold          score " in said
        found = evaluated(thin, "m.ts")
        assert found["threshold"] == read(Path("m.ts")).threshold != 0.0
        rows = found["positives"] if option != "--false-alarms" else found["rows"] - found["positives"]
        if option == "--precision":  # of rows predicted positive
            rows = found["confusion"][0][1] + found["confusion"][1][1]
        spread = np.sqrt(share * (1 - share) * (1 / rows + 1 / (rows / 2)))
        assert found[metric] == pytest.approx(expected, abs=4 * spread)


def test_it_does_not_depend_on_chunks_and_stops(overlapping, thin):
    thin("train", overlapping, "--recall", "0.9", "-m", "m.ts", "-q")
    for words in (("-j", "0"), ("--checkpoint-every", "1000")):
        thin("train", overlapping, "--recall", "0.9", "-m", "n.ts", *words, "-q")
        assert Path("m.ts").read_bytes() == Path("n.ts").read_bytes()


def test_a_probability_or_a_score(data, thin):
    thin("train", data, "-a", "ftrlproximal", "--threshold", "0.8", "-m", "p.ts", "-q")
    assert read(Path("p.ts")).threshold == pytest.approx(np.log(4))
    thin("train", data, "-a", "arow", "--threshold", "0.8", "-m", "s.ts", "-q")
    assert read(Path("s.ts")).threshold == pytest.approx(0.8)
    scores = np.array(thin("predict", data, "-m", "s.ts", "--scores").split(), float)
    assert thin("predict", data, "-m", "s.ts").split() == np.where(scores > np.float32(0.8), "1", "-1").tolist()
    assert "threshold            score 0.8\n" in thin("inspect", "s.ts")
    assert json.loads(thin("inspect", "s.ts", "--json"))["threshold"] == np.float32(0.8)
    shown = "threshold {}score 1.38629 (probability 0.8)\n"
    assert shown.format(" " * 11) in thin("inspect", "p.ts")
    assert shown.format(" " * 9) in thin("evaluate", data, "-m", "p.ts")
    assert shown.format(" " * 9) in thin("train", data, "-a", "ftrlproximal", "--threshold", "0.8")


def test_the_progressive_table_decides_by_it(data, thin):
    """Above all scores nothing is called positive."""
    found = json.loads(thin("train", data, "-a", "adarda", "--threshold", "1e6", "--json").splitlines()[-1])
    assert (found["sensitivity"], found["specificity"]) == (0.0, 1.0)
    assert found["error"] == 1.0 - found["baseline"] or found["error"] > found["baseline"]


def test_a_model_that_goes_on_keeps_it(data, thin):
    thin("train", data, "-a", "adarda", "--threshold", "0.5", "-m", "m.ts", "-q")
    thin("train", data, "--from", "m.ts", "-m", "n.ts", "-q")
    assert read(Path("n.ts")).threshold == 0.5


def test_the_option_of_an_algorithm_keeps_its_name(data, thin):
    """SMIDAS has a threshold of its own."""
    thin(
        "train",
        data,
        "-a",
        "smidas",
        "--features",
        "6",
        "--threshold",
        "eta_l1",
        "--score-above",
        "0.5",
        "-m",
        "m.ts",
        "-q",
    )
    found = read(Path("m.ts"))
    assert (found.learner.parameters["threshold"], found.threshold) == ("eta_l1", 0.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--threshold", "0.5", "--recall", "0.9"],
            "only one option can set the threshold, got --threshold and --recall",
        ),
        (["--recall", "0"], "recall must be a share above 0, at most 1, got 0.0"),
        (["--classes", "1,2,3", "--threshold", "0.5"], "needs a model of two classes, but this model has 3"),
        (["--classes", "1,2,3", "--recall", "0.5"], "a threshold for recall needs a model of two classes"),
        (["--grow-classes", "--recall", "0.5"], "a threshold needs two classes, and cannot be used with --grow"),
        (["--grow-classes", "--threshold", "0.5"], "a threshold needs two classes, and cannot be used with --grow"),
        (["-a", "fgm", "--recall", "0.5"], "FGM holds its rows: it has no scores before each update"),
        (
            ["--recall", "0.5", "--engine", "local"],
            "--recall, --false-alarms and --precision cannot be used with --engine",
        ),
        (["-a", "ftrlproximal", "--threshold", "1.5"], "a probability between 0 and 1"),
        (["--metrics", "speed"], "--metrics must be 'baseline', 'precision'"),
        (["--metrics", "cost", "--classes", "1,2,3"], "--metrics: cost needs two classes, got more"),
    ],
)
def test_refused(words, message, data, thin):
    assert message in thin("train", data, *words, code=2).errors


def test_a_precision_that_no_threshold_reaches(there, thin):
    Path("mixed.svm").write_text("-1 1:1\n+1 1:1\n-1 1:1\n" * 200)
    said = thin("train", "mixed.svm", "-a", "arow", "--precision", "0.9", "-m", "m.ts")
    assert "no threshold was chosen: no threshold reaches precision 0.9; the highest is 0." in said.errors
    assert read(Path("m.ts")).threshold == 0.0


def test_without_a_positive_row_there_is_none_to_choose(there, thin):
    Path("no.svm").write_text("-1 1:1\n" * 100)
    said = thin("train", "no.svm", "--recall", "0.9", "-m", "m.ts")
    assert "no threshold was chosen" in said.errors
    assert read(Path("m.ts")).threshold == 0.0
