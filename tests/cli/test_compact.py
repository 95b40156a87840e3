"""Models of hashed features keep state for those that occurred; the commands tell, and are the same otherwise."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from thinstream.models import pipeline as room
from thinstream.models.file import read

HOW = ("--classes", "a,b,c", "--text", "text", "-a", "arow")


@pytest.fixture
def mail(there):
    """Lines of text of three classes."""
    random = np.random.default_rng(0)
    lines = []
    for _ in range(300):
        words = random.integers(0, 60, 5)
        lines.append(
            json.dumps({"label": "abc"[int(words.min()) % 3], "text": " ".join(f"w{k}" for k in words)}) + "\n"
        )
    Path("mail.jsonl").write_text("".join(lines))


def test_state_is_told_and_files_do_not_tell(mail, thin, monkeypatch):
    said = thin("train", "mail.jsonl", *HOW, "-m", "compact.ts")
    assert re.search(r"state {14}0 MB for 60 features that occurred \(9\d MB for the full hash space\)", said)
    assert read("compact.ts").learner.encoder is not None
    shown = [thin("inspect", "compact.ts"), thin("evaluate", "mail.jsonl", "-m", "compact.ts")]
    thin("export", "compact.ts", "compact.json")
    monkeypatch.setattr(room, "HASHED", 1 << 60)
    assert "state  " not in thin("train", "mail.jsonl", *HOW, "-m", "wide.ts")
    assert Path("wide.ts").read_bytes() == Path("compact.ts").read_bytes()
    assert read("wide.ts").learner.encoder is None
    assert shown == [thin("inspect", "compact.ts"), thin("evaluate", "mail.jsonl", "-m", "compact.ts")]
    thin("export", "compact.ts", "wide.json")
    assert Path("wide.json").read_bytes() == Path("compact.json").read_bytes()


def test_learning_goes_on_from_a_file(mail, thin):
    lines = Path("mail.jsonl").read_text().splitlines(keepends=True)
    Path("first.jsonl").write_text("".join(lines[:170]))
    Path("second.jsonl").write_text("".join(lines[170:]))
    thin("train", "mail.jsonl", *HOW, "-q", "-m", "whole.ts")
    thin("train", "first.jsonl", *HOW, "-q", "-m", "half.ts")
    thin("train", "second.jsonl", "--from", "half.ts", "-q", "-m", "both.ts")
    whole, both = (read(name).learner for name in ("whole.ts", "both.ts"))
    assert both.encoder is not None
    assert both.weights().tobytes() == whole.weights().tobytes()
