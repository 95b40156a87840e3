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


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.slow if page in LONG else ()) for page in PAGES])
def test_the_commands_of_a_page(page, tmp_path):
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "thinstream"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m thinstream "$@"\n')
    command.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "THINSTREAM_DATA": str(work)}
    assert len(blocks(page)) > 3
    for block in blocks(page):
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block.replace("| head -n 3", "| sed -n 1,3p")],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    assert (work / PAGES[page]).exists()


def test_files_of_the_walks_exist():
    """docs/architecture.md names files in the order in which they come in, and the folders of two levels once each."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    walks = text[text.index("## Three walks") : text.index("## A rule is about one coordinate")]
    files = re.findall(r"`([a-z_/]+\.py)`", walks)
    assert len(files) > 30
    assert [file for file in files if not (ROOT / "src" / "thinstream" / file).is_file()] == []
    tree = text[text.index("## The tree") : text.index("## Three walks")]
    package = ROOT / "src" / "thinstream"
    folders = {path.parent.name for depth in ("*", "*/*") for path in package.glob(f"{depth}/__init__.py")}
    assert sorted(re.findall(r"^ +(\w+)/ ", tree, flags=re.M)) == sorted(folders - {"bcw", "sbcw"})
