"""``thinstream evaluate``: metrics, curves and pictures."""

import json
from pathlib import Path

import pytest


def test_curves_and_confusion_in_json(model, data, thin):
    found = json.loads(thin("evaluate", data, "-m", model, "--json"))
    assert sum(map(sum, found["confusion"])) == found["rows"] == 20
    curve = found["curves"]["precision_recall"]
    assert len(curve["threshold"]) == len(curve["precision"]) == len(curve["recall"])
    assert curve["recall"][-1] == 1.0
    assert found["curves"]["roc"]["false_alarms"][-1] == 1.0
    assert sum(found["curves"]["calibration"]["rows"]) == 20
    assert found["baseline"] == pytest.approx(7 / 20)


def test_sum_and_cost_come_when_asked_for(model, data, thin):
    plain = thin("evaluate", data, "-m", model)
    assert "always predicting 1: 35.00%" in plain
    assert "weighted sum" not in plain
    assert "\ncost " not in plain
    assert "weighted sum" in thin("evaluate", data, "-m", model, "--metrics", "sum")
    assert "\ncost " in thin("evaluate", data, "-m", model, "--cost-p", "0.9")


def test_pictures(model, data, thin):
    pytest.importorskip("matplotlib")
    for name in ("curves.png", "curves.svg"):
        assert thin("evaluate", data, "-m", model, "--plot", name).endswith(f"chart              {name}\n")
        assert Path(name).stat().st_size > 10_000
    said = thin("evaluate", data, "-m", model, "--plot", "curves.gif", code=2).errors
    assert "must be '.png' or '.svg'" in said
