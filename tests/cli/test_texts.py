"""Texts on the command line: n-grams and tf-idf from training to predicting, resuming and merging."""

import json
from pathlib import Path

import numpy as np
import pytest

import thinstream as ts

WORDING = ("--text", "s", "--ngrams", "1-2", "--stop", "the,of", "--binary", "--bits", "12")


@pytest.fixture
def mails(there):
    rng = np.random.default_rng(1)
    words = np.array(["free", "offer", "hello", "you", "the", "of", "not", "good"])
    lines = []
    for _ in range(200):
        text = " ".join(rng.choice(words, 6))
        lines.append(json.dumps({"label": int("not good" in text or "free" in text), "s": text}) + "\n")
    Path("d.jsonl").write_text("".join(lines))
    Path("one.jsonl").write_text("".join(lines[:90]))
    Path("two.jsonl").write_text("".join(lines[90:]))
    return "d.jsonl"


def test_tfidf_is_scale_and_normalize(mails, thin):
    thin("train", mails, "-a", "arow", *WORDING, "--tfidf", "-m", "a.ts", "-q")
    thin("train", mails, "-a", "arow", *WORDING, "--scale", "idf", "--normalize", "l2", "-m", "b.ts", "-q")
    assert Path("a.ts").read_bytes() == Path("b.ts").read_bytes()
    message = thin("train", mails, *WORDING, "--tfidf", "--scale", "max", code=2).errors
    assert "--tfidf means --scale idf, and cannot be used with --scale max" in message


def test_models_remember_how_texts_are_taken_apart(mails, thin):
    thin("train", mails, "-a", "arow", *WORDING, "--tfidf", "-m", "m.ts", "-q")
    (meaning,) = [line for line in thin("inspect", "m.ts").splitlines() if line.startswith("feature space")]
    assert {"text s", "ngrams 1-2", "stop 2 words", "binary"} < {*meaning.split(", ")}
    scores = [float(line) for line in thin("predict", mails, "-m", "m.ts", "--scores").split()]
    texts = [json.loads(line)["s"] for line in Path(mails).read_text().splitlines()]
    model = ts.load("m.ts")
    assert np.array_equal(np.array(scores, np.float32), model.decision_function(texts))
    assert model.predict(["free free free", "hello you"]).tolist() == [1, 0]
    message = thin("predict", mails, "-m", "m.ts", "--ngrams", "1-3", code=2).errors
    assert "learned with ngrams 1,2; it cannot be used with ngrams 1,3" in message
    message = thin("predict", mails, "-m", "m.ts", "--no-lower", code=1).errors
    assert "Read the rows with the same options" in message


def test_going_on_gives_the_same_bytes(mails, thin):
    thin("train", mails, "-a", "arow", *WORDING, "--tfidf", "-m", "whole.ts", "-q")
    thin("train", "one.jsonl", "-a", "arow", *WORDING, "--tfidf", "-m", "a.ts", "-q")
    thin("train", "two.jsonl", "--from", "a.ts", "-m", "b.ts", "-q")
    one, two = (ts.load(name)._model.learner for name in ("whole.ts", "b.ts"))
    assert one.outputs.one.memory.state.tobytes() == two.outputs.one.memory.state.tobytes()
    assert one.preparation.scales.state.tobytes() == two.preparation.scales.state.tobytes()


def test_merged_counts_are_those_of_all_rows(mails, thin):
    for part in ("one", "two", "d"):
        thin("train", f"{part}.jsonl", "-a", "arow", *WORDING, "--tfidf", "-m", f"{part}.ts", "-q")
    thin("merge", "one.ts", "two.ts", "-m", "merged.ts")
    scales = [ts.load(name)._model.learner.preparation.scales.state for name in ("merged.ts", "d.ts")]
    assert np.array_equal(*scales)
