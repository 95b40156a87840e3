"""What a stranger meets first says what is so: citation, templates, workflow, versions."""

import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tools.dist import require_files, tracked_files
from tools.versions import PYTHONS, SHOWN, Line, page, pythons

import thinstream as ts

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()


def test_the_citation_is_of_this_version():
    found = dict(re.findall(r"^(\S+): (.*)$", (ROOT / "CITATION.cff").read_text(), flags=re.M))
    assert (found["version"], found["license"]) == (ts.__version__, PROJECT["license"])


def test_the_workflow_runs_what_ci_runs():
    steps = re.findall(r"- run: (.*)", WORKFLOW)
    assert steps == ["sudo tests/data/brokers/install.sh redis-server nats-server", ".ci/run", "make coverage"]
    assert (ROOT / ".ci/run").stat().st_mode & 0o100


def test_workflows_run_every_claimed_python_and_system():
    claimed = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert re.findall(r"python: \[(.*)\]", WORKFLOW) == [", ".join(f'"{version}"' for version in claimed)]
    assert set(re.findall(r"runs-on: (.*)", WORKFLOW)) == {"ubuntu-latest"}
    systems = [name for name in PROJECT["classifiers"] if name.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    listed = f"{', '.join(claimed[:-1])} and {claimed[-1]}"
    assert f"Linux with Python {listed}." in (ROOT / "docs/install.md").read_text()


def test_hooks_run_the_linters_of_make_without_downloads():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (.*)", hooks) == ["local"]
    assert set(re.findall(r"language: (.*)", hooks)) == {"system", "pygrep"}
    linters = re.findall(r"\$\(BIN\)/(ruff \w+|mypy|lint-imports)", (ROOT / "Makefile").read_text())
    assert len(linters) == 4
    assert [linter for linter in linters if f"entry: .venv/bin/{linter}" not in hooks] == []


def test_templates_have_a_name_and_say_what_they_are_for():
    templates = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.md"))
    assert len(templates) == 3
    for template in templates:
        assert re.match(r"---\nname: .+\nabout: .+\nlabels: \w+\n---\n", template.read_text()), template.name


def test_pythons_that_are_promised_are_those_that_are_tried():
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={promised[0]}"
    assert [*promised] == [version for version in PYTHONS if version in promised]
    assert set(dict(pythons())) <= set(PYTHONS)


def test_the_page_of_versions():
    lines = [
        Line("3.11.7", "oldest", dict.fromkeys(SHOWN, "1.0"), "7 passed"),
        Line("3.12.1", "newest", {}, "does not"),
    ]
    text = page(lines, ["3.14"])
    assert "| 3.11.7 | oldest |" + " 1.0 |" * len(SHOWN) + " 7 passed |" in text
    assert "Python 3.14 was not there to be tried." in text


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a checkout of git")
def test_data_that_is_left_out_is_noticed(tmp_path):
    wanted = tracked_files()
    assert {"thinstream/py.typed", "thinstream/export/formats/scorer.js"} <= wanted
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for name in wanted:
            wheel.writestr(name, "")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as sdist:
        for name in sorted(wanted - {"thinstream/py.typed"}):
            sdist.addfile(tarfile.TarInfo(f"thinstream-0.1.0/src/{name}"))
    with pytest.raises(SystemExit, match=r"a\.tar\.gz lacks 1 files of the package: thinstream/py\.typed"):
        require_files(tmp_path / "a.whl", tmp_path / "a.tar.gz", wanted)


def test_a_wheel_with_files_outside_the_package_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for name in ("thinstream/__init__.py", "thinstream-0.1.0.dist-info/METADATA", "papers/data.py"):
            wheel.writestr(name, "")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz"):
        pass
    with pytest.raises(SystemExit, match=r"a\.whl has 1 files outside the package: papers/data\.py"):
        require_files(tmp_path / "a.whl", tmp_path / "a.tar.gz", set())
