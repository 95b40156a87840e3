"""A quick part of the tests in every Python that is here, with the oldest and the newest packages that fit together.

make test-versions        (or: python -m tools.versions; uv makes the environments)

The table goes to docs/versions.md. What is oldest is what pyproject.toml allows, or the first release with wheels for
that Python.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from pathlib import Path
from typing import NamedTuple

from tools.dist import SPARSE

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "versions.md"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: How packages are chosen, as uv calls it.
AGES = {"oldest": "lowest-direct", "newest": "highest"}
SHOWN = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "safetensors", "rich-argparse")
#: scikit-learn's checks of an estimator, and ours: what compiles, and what other packages change most often.
TESTS = ("tests/estimators/test_estimators.py",)
CHOSEN = ["-k", "AROW", "-m", "not slow and not interpreted"]
#: And a stranger's first commands.
COMMANDS = (
    ["train", "own.svm", "-a", "arow", "--model", "own.ts", "--quiet"],
    ["predict", "own.svm", "--model", "own.ts", "--out", "own.txt"],
    ["export", "own.ts", "own.js"],
)
TOOLS = ("pytest>=8.0", "pytest-xdist>=3.5", "hypothesis>=6.100", "pandas>=2.0")

_PAGE = """\
# Versions

Written by `make test-versions` on {day} ({machine}). In each environment: scikit-learn's
checks of AROW and ours, compiled there ({tests}), and a model trained, asked and exported from the command line.

{table}

*Oldest* is what `pyproject.toml` allows, or the first release with a wheel for that Python; *newest* is what there
was that day.{absent}
"""


class Line(NamedTuple):
    """What came of an environment."""

    python: str
    age: str
    packages: dict[str, str]
    outcome: str


def main() -> None:
    """Runs all of them, two at a time; after each, the page has what is known so far."""
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if uv is None:
        raise SystemExit("uv is needed to make environments: pip install uv")
    found = dict(pythons())
    absent = [version for version in PYTHONS if version not in found]
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as workers:
        wheel = _built(uv, Path(folder))
        wanted = [(version, age) for age in AGES for version in found]
        running = [
            workers.submit(tried, uv, found[version], age, wheel, Path(folder) / f"{version}-{age}")
            for version, age in wanted
        ]
        for done in as_completed(running):
            lines.append(done.result())
            print(*row(lines[-1]), sep=" | ", flush=True)
            PAGE.write_text(page(sorted(lines), absent), "utf-8")
    if bad := [line for line in lines if not line.outcome.endswith("passed")]:
        raise SystemExit(f"{len(bad)} of {len(lines)} environments fail")


def pythons() -> Iterator[tuple[str, str]]:
    """Versions that are here, each with its program: on the PATH, or of pyenv."""
    own = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in PYTHONS:
        programs = [str(path) for path in sorted(own.glob(f"{version}.*/bin/python"), reverse=True)]
        programs += [path] if (path := shutil.which(f"python{version}")) else []
        for program in programs:
            told = subprocess.run([program, "-c", "import ssl, sqlite3"], capture_output=True)
            if told.returncode == 0:
                yield version, program
                break


def tried(uv: str, program: str, age: str, wheel: Path, place: Path) -> Line:
    """An environment made and tested."""
    _run(uv, "venv", "--quiet", "--no-config", "--python", program, str(place))
    python = str(place / "bin" / "python")
    install = [uv, "pip", "install", "--quiet", "--python", python, "--only-binary", ":all:"]
    done = _run(*install, "--resolution", AGES[age], str(wheel), *direct(), check=False)
    version = _run(python, "--version").stdout.split()[1]
    if done.returncode:
        return Line(version, age, {}, f"does not resolve: {done.stderr.strip().splitlines()[-1]}")
    known = {each["name"]: each["version"] for each in _listed(uv, python)}
    fixed = [f"{name}=={known[name]}" for name in known if name != "thinstream"]
    _run(*install, *TOOLS, *fixed)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(place / "cache")}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CHOSEN, *TESTS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    last = [line for line in done.stdout.splitlines() if " passed" in line or " failed" in line or " error" in line]
    outcome = last[-1].split(" in ")[0].strip("= ") if last else f"ended with {done.returncode}"
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-1000:], sep="\n")
    (place / "own.svm").write_text(SPARSE)
    for words in COMMANDS:
        told = subprocess.run([python, "-m", "thinstream", *words], cwd=place, env=environment, capture_output=True)
        outcome += f", {words[0]} failed" if told.returncode else ""
    counts = [part for part in outcome.split(", ") if part.split()[-1] in ("passed", "failed", "error", "errors")]
    return Line(version, age, {name: known[name] for name in SHOWN}, ", ".join(counts) or outcome)


def direct() -> list[str]:
    """What pyproject.toml asks for, by name: uv takes the oldest of these, and of what they need in turn the newest."""
    asked: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    return asked


def row(line: Line) -> list[str]:
    """Its cells."""
    return [line.python, line.age, *(line.packages.get(name, "") for name in SHOWN), line.outcome]


def page(lines: list[Line], absent: list[str]) -> str:
    """All of it."""
    heads = ["Python", "packages", *SHOWN, "tests"]
    table = [heads, ["---"] * len(heads), *map(row, lines)]
    tests = ", ".join(f"`{test}`" for test in TESTS)
    gone = f" Python {' and '.join(absent)} was not there to be tried." if absent else ""
    return _PAGE.format(
        day=date.today().isoformat(),
        machine=f"{platform.system()}, {platform.machine()}",
        tests=tests,
        table="\n".join(f"| {' | '.join(cells)} |" for cells in table),
        absent=gone,
    )


def _built(uv: str, folder: Path) -> Path:
    _run(uv, "build", "--quiet", "--wheel", "--out-dir", str(folder / "dist"), str(ROOT))
    return next((folder / "dist").glob("*.whl"))


def _listed(uv: str, python: str) -> list[dict[str, str]]:
    told: list[dict[str, str]] = json.loads(_run(uv, "pip", "list", "--python", python, "--format", "json").stdout)
    return told


def _run(*words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done


if __name__ == "__main__":
    main()
