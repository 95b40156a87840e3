"""``thinstream diagnose``, and SMIDAS, for which it is most needed."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.diagnostics.test_diagnosis import columns_apart
from thinstream.cli.commands.scoring import first
from thinstream.data.opening import open_stream


@pytest.fixture
def rows(there):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(200):
        x = rng.normal(size=30)
        lines.append(f"{1 if x[:9].sum() > 0 else -1} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x)) + "\n")
    Path("rows.svm").write_text("".join(lines))
    return "rows.svm"


def test_a_healthy_model(rows, thin):
    thin("train", rows, "-a", "fsol", "-m", "f.ts", "-q")
    said = thin("diagnose", rows, "-m", "f.ts")
    assert said.startswith("FSOL: no problems found\n")
    assert "after 200" in said
    assert "after 100" in thin("diagnose", rows, "-m", "f.ts", "--rows", 100)


def test_a_sick_one(rows, thin):
    thin("train", rows, "-a", "smidas", "--p", 200, "--eta", 0.5, "-m", "s.ts", "-q")
    found = json.loads(thin("diagnose", rows, "-m", "s.ts", "--json"))
    assert found["model"] == "SMIDAS"
    assert found["findings"][0]["level"] == "problem"
    assert found["findings"][0]["about"] == "dynamic range"
    assert "p=200 is too large" in found["findings"][0]["advice"]


def test_columns_of_very_different_scales(there, thin):
    rows, y = columns_apart()
    lines = [",".join([str(label), *map(repr, row)]) for label, row in zip(y.tolist(), rows.tolist(), strict=True)]
    Path("wide.csv").write_text("label,a,b,c,d,e,f,g,h\n" + "\n".join(lines) + "\n")
    thin("train", "wide.csv", "--label", "label", "-a", "fsol", "-m", "f.ts", "-q")
    said = thin("diagnose", "wide.csv", "-m", "f.ts")
    assert said.startswith("FSOL: 1 problem\n  problem  scales: ")
    assert "--scale max" in said
    thin("train", "wide.csv", "--label", "label", "-a", "fsol", "--scale", "max", "-m", "f.ts", "-q")
    assert thin("diagnose", "wide.csv", "-m", "f.ts").startswith("FSOL: no problems")


def test_a_model_of_weights_only(rows, thin):
    thin("train", rows, "-a", "ssol", "-m", "w.ts", "-q", "--weights-only")
    assert "density" in thin("diagnose", rows, "-m", "w.ts")


def test_smidas_needs_p_or_the_width(rows, thin):
    said = thin("train", rows, "-a", "smidas", "-q", code=2)
    assert "need the number of features in advance" in said.errors
    thin("train", rows, "-a", "smidas", "--features", 30, "-m", "s.ts", "-q")
    assert "SMIDAS" in thin("inspect", "s.ts")


@pytest.fixture
def noise(there):
    """Rows that tell nothing of their labels: every model is worse than a constant."""
    rng, lines = np.random.default_rng(4), []
    for _ in range(300):
        x, y = rng.normal(size=8), 1 if rng.random() < 0.3 else -1
        lines.append(f"{y} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x)) + "\n")
    Path("noise.svm").write_text("".join(lines))
    return "noise.svm"


def test_worse_than_a_constant(noise, thin):
    thin("train", noise, "-m", "a.ts", "-q")
    said = thin("diagnose", noise, "-m", "a.ts")
    assert said.startswith("Auto: 1 note\n  note     error: ")
    assert "(thinstream tune -a arow --grid half-life=1000,10000)" in said  # it has nothing to tune itself
    thin("train", noise, "-a", "fsol", "-m", "f.ts", "-q")
    assert "try other parameters or another algorithm (thinstream tune)" in thin("diagnose", noise, "-m", "f.ts")


@pytest.mark.slow  # lanes that forget, and of two more algorithms, are compiled
@pytest.mark.parametrize("algorithm", ["auto", "fsol"])
def test_what_is_advised_runs(noise, thin, algorithm):
    thin("train", noise, "-a", algorithm, "-m", "m.ts", "-q")
    (command,) = re.findall(r"\(thinstream (tune[^)]*)\)", thin("diagnose", noise, "-m", "m.ts"))
    name, *options = command.split()
    thin(name, noise, *options, "-q")


def test_nothing_to_look_at(rows, thin):
    thin("train", rows, "-m", "f.ts", "-q")
    Path("empty.svm").write_text("")
    assert "the data has no rows" in thin("diagnose", "empty.svm", "-m", "f.ts", code=1).errors


def test_first_rows_are_those_of_the_stream(rows):
    whole = first(open_stream(rows).batches(), 10**9)
    assert (len(whole), whole.n_features) == (200, 30)
    for n in (1, 77, 200):
        some = first(open_stream(rows).batches(), n)
        np.testing.assert_array_equal(some.y, whole.y[:n])
        np.testing.assert_array_equal(some.values, whole.values[: some.nnz])
        np.testing.assert_array_equal(some.indptr, whole.indptr[: n + 1])
