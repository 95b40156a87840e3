"""The commands in the docs run as they stand."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Page → a file that its commands leave behind.
PAGES = {
    "command-line.md": "both.ts",
    "exports.md": "mail.db",
    "coming-from/libsol.md": "arow2.ts",
    "coming-from/vowpal-wabbit.md": "weights.txt",
    "sparsity-path.md": "costs.csv",
    "tuning.md": "best.ts",
    "recipes/crosses.md": "crossed.ts",
    "recipes/drift.md": "nothing.ts",
    "recipes/huge-vocabularies.md": "named.ts",
    "recipes/late-labels.md": "tuesday.ts",
}


#: Pages whose commands compile what no other test does, or take long.
LONG = (
    "command-line.md",
    "coming-from/libsol.md",
    "coming-from/vowpal-wabbit.md",
    "recipes/crosses.md",
    "recipes/drift.md",
    "recipes/huge-vocabularies.md",
    "recipes/late-labels.md",
    "sparsity-path.md",
    "tuning.md",
)


def blocks(page):
    return re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / page).read_text(), flags=re.M | re.S)


def run(block, folder):
    """Commands in a new shell; ``thinstream`` is ours."""
    programs = folder.parent / "bin"
    programs.mkdir(exist_ok=True)
    command = programs / "thinstream"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m thinstream "$@"\n')
    command.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "THINSTREAM_DATA": str(folder)}
    words = ["bash", "-e", "-o", "pipefail", "-c", block.replace("| head -n 3", "| sed -n 1,3p")]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.slow if page in LONG else ()) for page in PAGES])
def test_the_commands_of_a_page(page, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    assert len(blocks(page)) > 3
    for block in blocks(page):
        run(block, work)
    assert (work / PAGES[page]).exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_commands_of_the_readme(tmp_path):
    """Its five lines, on a table that somebody has."""
    _, lines, *_ = blocks("../README.md")
    assert len(lines.splitlines()) == 5
    work = tmp_path / "work"
    work.mkdir()
    cells = [
        f"{k % 97},{'rent' if k % 3 else 'own'},{20 + k % 40},{'yes' if k % 97 > 40 else 'no'}" for k in range(600)
    ]
    for name, part in (("loans.csv", cells[:400]), ("later.csv", cells[400:])):
        (work / name).write_text("\n".join(["income,home,age,approved", *part]) + "\n")
    shown = run(lines, work)
    assert "income" in shown
    assert (work / "small.ts").exists()


def test_links_of_the_front_pages_lead_somewhere():
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "RELEASING.md",
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
        "docs/exports.md",
        "docs/python.md",
    ):
        page = ROOT / name
        links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == [], name


def test_files_of_the_walks_exist():
    """docs/architecture.md names files in the order in which they come in, and the folders of two levels once each."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    walks = text[text.index("## Five walks") : text.index("## A rule is about one coordinate")]
    files = re.findall(r"`([a-z_/]+\.py)`", walks)
    assert len(files) > 30
    assert [file for file in files if not (ROOT / "src" / "thinstream" / file).is_file()] == []
    tree = text[text.index("## The map") : text.index("## Five walks")]
    package = ROOT / "src" / "thinstream"
    folders = [path.parent.name for depth in ("*", "*/*") for path in package.glob(f"{depth}/__init__.py")]
    assert sorted(re.findall(r"^ +(\w+)/ ", tree, flags=re.M)) == sorted(folders)
