"""The files of examples/deploy and docs/production.md: metrics, options, units and manifests that exist."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.serve.conftest import made
from tests.serve.servers import Server
from thinstream.cli.app import run
from thinstream.cli.parser import command_parser

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
PAGE = (ROOT / "docs" / "production.md").read_text()
#: Metrics that appear only with a source, with challengers or after some errors.
SOMETIMES = {
    "thinstream_source_up", "thinstream_source_lag", "thinstream_source_dead_letters_total",
    "thinstream_source_lost_total", "thinstream_challenger_error", "thinstream_challenger_champion_error",
    "thinstream_missing_columns_total", "thinstream_unknown_columns_total", "thinstream_labels_total",
    "thinstream_progressive_log_loss", "thinstream_progressive_auc",
}  # fmt: skip


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """The names of all metrics of a server that has predicted and learned."""
    folder = tmp_path_factory.mktemp("metrics")
    made(folder / "m.ts", "ham", "spam")
    server = Server(folder / "data", folder / "m.ts")
    try:
        server.until_ready()
        server.post("/predict", {"x": {"1": 1.0}})
        server.post("/learn", {"x": {"1": 1.0}, "y": "ham"})
        until, text = time.monotonic() + 60, ""
        while 'rows_learned_total{model="m"} 1.0' not in text and time.monotonic() < until:
            time.sleep(0.05)
            text = server.get("/metrics")[1].decode()
    finally:
        server.kill()
    return set(re.findall(r"^(\w+)(?:\{| )", text, flags=re.M)) | SOMETIMES


def test_alerts_and_dashboard_use_metrics_that_exist(metrics):
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    queries += [each["expr"] for each in dashboard["annotations"]["list"]]
    names = {name for text in (*queries, (DEPLOY / "alerts.yaml").read_text()) for name in _names(text)}
    assert len(names) > 20
    assert names <= metrics


def test_the_page_lists_all_metrics(metrics):
    section = PAGE.partition("## Metrics, alerts and a dashboard")[2].partition("\n## ")[0]
    listed = {f"thinstream_{name}" for row in re.findall(r"^\| (`.*?) \|", section, flags=re.M) for name in _words(row)}
    bare = {re.sub(r"_(bucket|count|sum)$", "", name) for name in metrics if name.startswith("thinstream_")}
    assert listed == bare


def _names(text):
    return re.findall(r"\b(?:thinstream|process)_[a-z_]+\b(?!\()", re.sub(r"job=\"thinstream\"", "", text))


def _words(text):
    return re.findall(r"`([a-z_]+)`", text)


def test_commands_have_options_that_exist():
    """Those of the page, the unit, the manifest and the image, and the server accepts the configuration."""
    parser = command_parser("serve")[0]
    lines = re.findall(r"thinstream (mail=\S+ --.*)", PAGE)
    lines += re.findall(r"^ExecStart=\S+ serve (.*)$", (DEPLOY / "thinstream.service").read_text(), flags=re.M)
    lines += [
        " ".join(json.loads(args)) for args in re.findall(r"args: (\[.*\])", (DEPLOY / "kubernetes.yaml").read_text())
    ]
    assert len(lines) == 3
    for line in lines:
        assert parser.parse(shlex.split(line))
    for option in re.findall(r"`(--[a-z-]+)", PAGE):
        assert option in (*parser._option_string_actions, "--help")


def test_the_configuration_is_read(capsys):
    file = DEPLOY / "serve.toml"
    assert run(["serve", "--config", str(file), "--print-config"]) == 0
    assert f'on-retrained = "replace"  # {file}' in capsys.readouterr().out


def test_the_image_sets_options_that_exist(monkeypatch, capsys):
    text = (DEPLOY / "Dockerfile").read_text()
    variables = dict(re.findall(r"(THINSTREAM_SERVE_\w+)=(\S+)", text))
    assert len(variables) == 3
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run(["serve", "--print-config"]) == 0
    assert 'data = "/data"  # THINSTREAM_SERVE_DATA' in capsys.readouterr().out
    assert re.search(r"^USER 10001", text, flags=re.M)
    assert "/v2/health/live" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_the_unit_is_valid(tmp_path):
    text = (DEPLOY / "thinstream.service").read_text().replace("/opt/thinstream/bin/thinstream", sys.executable)
    (tmp_path / "thinstream.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "thinstream.service"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_manifest_keeps_one_writer():
    """One replica, probes at the addresses that the page explains, and a volume for one pod."""
    text = (DEPLOY / "kubernetes.yaml").read_text()
    assert re.findall(r"replicas: (\d+)", text) == ["1"]
    assert re.findall(r"path: (/v2\S+)", text) == ["/v2/health/live", "/v2/health/live", "/v2/health/ready"]
    assert "ReadWriteOncePod" in text
    assert "runAsNonRoot: true" in text
    for command, kind in (("kubernetes-validate", "kubernetes.yaml"), ("hadolint", "Dockerfile")):
        if shutil.which(command):  # neither is needed to develop
            assert subprocess.run([command, DEPLOY / kind]).returncode == 0
