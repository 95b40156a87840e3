"""Sparsity of hashed models is that of the features met: nearly all numbers there are to hash into have none."""

import json
from pathlib import Path

import numpy as np
import pytest

from thinstream.cli.render import cells
from thinstream.training.metrics import Progress
from thinstream.training.observer import Line

WORDS = [f"word{k}" for k in range(60)]


@pytest.fixture
def mail(there):
    """Lines of text, and the words in them."""
    rng = np.random.default_rng(0)
    lines, met = [], set()
    for _ in range(200):
        words = rng.choice(WORDS, 5, replace=False).tolist()
        met.update(words)
        label = "spam" if min(int(word.removeprefix("word")) for word in words) < 8 else "ham"
        lines.append(json.dumps({"label": label, "text": " ".join(words)}) + "\n")
    Path("mail.jsonl").write_text("".join(lines))
    return len(met)


def test_of_the_features_met(mail, thin):
    how = ("--classes", "ham,spam", "--text", "text", "-a", "ssol", "--l1", 3, "--eta", 0.5, "--bits", 12)
    said = thin("train", "mail.jsonl", *how, "-m", "m.ts")
    facts = json.loads(thin("inspect", "m.ts", "--json"))
    nnz = facts["non_zeros"]
    assert 0 < nnz < mail
    assert f"non-zeros          {nnz} of {mail} weights of features that occurred (hash space 2^12 = 4,096)" in said
    assert (facts["weights_met"], facts["sparsity"]) == (mail, 1.0 - nnz / mail)
    assert facts["hash_space_sparsity"] > 0.98
    lines = [json.loads(line) for line in thin("train", "mail.jsonl", *how, "--json").splitlines()]
    assert {line["weights_met"] for line in lines[-2:]} == {mail}


def test_the_column_of_the_table():
    report = Progress().report()
    assert cells(Line(report, report, 3, 4096), 1.0, ())["sparsity %"] == "99.93"
    assert cells(Line(report, report, 3, 4096, 12), 1.0, ())["sparsity %"] == "75.00"


def test_of_all_where_nothing_tells_which_were_met(mail, thin):
    how = ("--classes", "ham,spam", "--text", "text", "-a", "arow")
    thin("train", "mail.jsonl", *how, "-q", "--weights-only", "-m", "w.ts")
    facts = json.loads(thin("inspect", "w.ts", "--json"))
    assert "sparsity" not in facts
    assert facts["hash_space_sparsity"] > 0.9999


def test_of_each_class(there, thin):
    rows = [{"label": "abc"[k % 3], "n": k, "kind": f"b{k % 3}"} for k in range(30)]
    Path("three.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = thin("train", "three.jsonl", "--classes", "a,b,c", "-a", "ssol", "-m", "m.ts")
    assert "(hash space 2^22 = 4,194,304)" in said  # for all classes
    assert json.loads(thin("inspect", "m.ts", "--json"))["weights_met"] == 3 * 4
