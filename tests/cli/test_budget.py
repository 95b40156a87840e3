"""``train --max-features``: told, saved, gone on with, exported; refused where it cannot be."""

import json
from pathlib import Path

import numpy as np
import pytest

from thinstream.models.file import read

HOW = ("--classes", "ham,spam", "--text", "text", "-a", "arow", "--max-features", 40, "--bits", 31)


@pytest.fixture
def mail(there):
    """Texts of a few words that tell the class and many that come once or twice."""
    random = np.random.default_rng(0)
    lines = []
    for k in range(400):
        spam = bool(k % 2)
        told = random.choice(10) + 10 * spam
        rare = random.integers(0, 3000, 4)
        lines.append(
            json.dumps({"label": ["ham", "spam"][spam], "text": f"w{told} " + " ".join(f"r{k}" for k in rare)})
        )
    Path("mail.jsonl").write_text("\n".join(lines) + "\n")


def test_the_words_that_tell_are_kept(mail, thin):
    said = thin("train", "mail.jsonl", *HOW, "--names", 10_000, "-m", "m.ts")
    model = read("m.ts")
    assert f"features kept      {len(model.learner.encoder.used)} of 40, each admitted at occurrence 2" in said
    assert model.budget == {"max_features": 40, "admit": 2}
    assert {f"text^w{k}" for k in range(20)} <= {*model.names.texts}
    assert len(model.names.texts) <= 40
    used = len(model.learner.encoder.used)
    assert f"budget               {used} of 40 features, each admitted at occurrence 2" in thin("inspect", "m.ts")
    told = json.loads(thin("inspect", "m.ts", "--json"))
    assert told["budget"] == {"kept": used, "max_features": 40, "admit": 2}
    thin("train", "mail.jsonl", "--from", "m.ts", "-q", "-m", "on.ts")
    assert read("on.ts").learner.t == 800
    assert len(read("on.ts").learner.encoder.used) <= 40


@pytest.mark.slow  # numbers of 8 bytes compile the parser once more
def test_names_of_what_is_kept_are_kept(mail, thin):
    thin("train", "mail.jsonl", *HOW[:-2], "-q", "-m", "wide.ts")
    wide = read("wide.ts")
    assert wide.feature_space["hashing"]["bits"] == 62
    assert wide.learner.encoder.numbers.max() > 1 << 60
    assert {f"text^w{k}" for k in range(20)} <= {*wide.names.texts}
    assert len(wide.names.texts) == len(wide.learner.encoder.used)
    assert "text^w" in thin("inspect", "wide.ts")
    error = json.loads(thin("evaluate", "mail.jsonl", "-m", "wide.ts", "--json"))["error"]
    assert error < 0.05
    thin("train", "mail.jsonl", *HOW[:-2], "-q", "-m", "again.ts", "--checkpoint-every", 33)
    assert Path("again.ts").read_bytes() == Path("wide.ts").read_bytes()
    thin("thin", "wide.ts", "--nnz", 5, "-m", "thin.ts", "-q")
    assert read("thin.ts").learner.nnz == 5
    assert "the C export supports hashing with at most 31 bits" in thin("export", "wide.ts", "m.h", code=2).errors


def test_a_run_that_was_cut_gives_the_same_bytes(mail, thin):
    thin("train", "mail.jsonl", *HOW, "-q", "-m", "whole.ts")
    thin("train", "mail.jsonl", *HOW, "-q", "-m", "again.ts", "--checkpoint-every", 33)
    assert Path("again.ts").read_bytes() == Path("whole.ts").read_bytes()


def test_exports_predict_as_the_model_does(mail, thin):
    thin("train", "mail.jsonl", *HOW, "--normalize", "l2", "-q", "-m", "m.ts")
    thin("export", "m.ts", "m.json")
    assert len(json.loads(Path("m.json").read_text())["scales"]["indices"]) == len(read("m.ts").learner.encoder.used)
    thin("thin", "m.ts", "--nnz", 5, "-m", "thin.ts")
    full, small = (thin("evaluate", "mail.jsonl", "-m", name, "--json") for name in ("m.ts", "thin.ts"))
    assert json.loads(full)["rows"] == json.loads(small)["rows"] == 400


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--admit", 3), "--admit needs --max-features"),
        (("--max-features", 5, "--engine", "local"), "--max-features cannot be used with --engine"),
        (("--max-features", 5, "-a", "sofs"), "SOFS: max_features needs an algorithm that learns online"),
    ],
)
def test_what_cannot_be_is_said_at_once(words, message, mail, thin):
    said = thin("train", "mail.jsonl", "--classes", "ham,spam", "--text", "text", *words, code=2)
    assert message in said.errors


def test_a_model_goes_on_with_its_own_budget(mail, thin):
    thin("train", "mail.jsonl", *HOW, "-q", "-m", "m.ts")
    said = thin("train", "mail.jsonl", "--from", "m.ts", "--max-features", 50, code=2)
    assert "m.ts was trained with max_features 40, and cannot continue with 50" in said.errors
