"""Builds what would be published, and tries it as a stranger would: a bare environment, a demo, a model of their own.

make dist        (or: python -m tools.dist)
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SPARSE = "".join(f"{'+' if k % 2 else '-'}1 {k % 2 + 1}:1 {k % 7 + 3}:0.5\n" for k in range(400))


def main() -> None:
    """Builds wheel and sdist into dist/, checks them, and installs and runs each."""
    dist = ROOT / "dist"
    for old in dist.glob("thinstream-*"):
        old.unlink()
    _run(sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT))
    built = sorted(map(str, dist.glob("thinstream-*")))
    _run(sys.executable, "-m", "twine", "check", "--strict", *built)
    wheel, sdist = (next(dist.glob(ending)) for ending in ("*.whl", "*.tar.gz"))
    require_files(wheel, sdist, tracked_files())
    for package in (wheel, sdist):
        with tempfile.TemporaryDirectory() as folder:
            _try(package, Path(folder))
        print(f"{package.name}: installed in a bare environment, and run")


def tracked_files() -> set[str]:
    """Of the package, as git has them."""
    listed = subprocess.run(["git", "ls-files", "src/thinstream"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name.removeprefix("src/") for name in listed.stdout.split("\n") if name}


def require_files(wheel: Path, sdist: Path, wanted: set[str]) -> None:
    """Exit if code or data is missing in one of the two, or if the wheel has files outside the package."""
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2].removeprefix("src/") for name in archive.getnames()}
    for package, found in ((wheel, in_wheel), (sdist, in_sdist)):
        if missing := sorted(wanted - found):
            raise SystemExit(f"{package.name} lacks {len(missing)} files of the package: {', '.join(missing[:10])}")
    if foreign := sorted(name for name in in_wheel if not name.startswith(("thinstream/", "thinstream-"))):
        raise SystemExit(f"{wheel.name} has {len(foreign)} files outside the package: {', '.join(foreign[:10])}")


def _try(package: Path, folder: Path) -> None:
    _run(sys.executable, "-m", "venv", str(folder / "venv"))
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    _run(str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(package))
    (folder / "own.svm").write_text(SPARSE)
    thinstream = str(programs / "thinstream")
    for words in (
        ["--version"],
        ["demo", "--rows", "2000"],
        ["train", "own.svm", "--model", "own.ts", "--quiet"],
        ["predict", "own.svm", "--model", "own.ts", "--out", "own.txt"],
        ["export", "own.ts", "own.js"],
        ["datasets"],
    ):
        _run(thinstream, *words, cwd=folder)
    answers = (folder / "own.txt").read_text().split()
    right = sum((k % 2 == 1) == (float(answer) > 0) for k, answer in enumerate(answers))
    if right < 390:
        raise SystemExit(f"{package.name}: {right} of 400 rows are predicted right, at least 390 should be")


def _run(*words: str, cwd: Path = ROOT) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
