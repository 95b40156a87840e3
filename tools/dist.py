"""Builds what would be published, and tests it in bare environments: the pure wheel, the sdist and a wheel with code.

make dist        (or: python -m tools.dist [--jobs N] [--algorithms auto,AROW] [--compiled FOLDER])

The wheel with compiled code is for the Python and the machine that run this. `tools.fresh_install` finds out which
functions it needs. They are compiled for each baseline processor, and all of them are loaded and run without numba.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
FRESH_INSTALL = ROOT / "tools" / "fresh_install.py"
SPARSE = "".join(f"{'+' if k % 2 else '-'}1 {k % 2 + 1}:1 {k % 7 + 3}:0.5\n" for k in range(400))
#: Bytes of a wheel with compiled code.
LIMIT = 15_000_000
#: Processors of qemu that have the features of a baseline.
PROCESSORS = {"x86-64-v3": "Haswell", "x86-64-v2": "Nehalem"}


def main() -> None:
    """Build wheels and sdist into dist/, check them, and install and run each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that compile")
    parser.add_argument("--algorithms", help="compile these only, for a quick test of the build: names with commas")
    parser.add_argument("--compiled", type=Path, help="a folder for compiled code; code that is there is used again")
    parser.add_argument("--emulate", type=Path, help="only run a wheel on emulated processors (needs qemu-user)")
    options = parser.parse_args()
    if options.algorithms:
        os.environ["FRESH_INSTALL_ALGORITHMS"] = options.algorithms
    if options.emulate:
        emulate(options.emulate)
        return
    dist = ROOT / "dist"
    for old in dist.glob("thinstream-*"):
        old.unlink()
    _run(sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT))
    wheel, sdist = (next(dist.glob(ending)) for ending in ("*.whl", "*.tar.gz"))
    with tempfile.TemporaryDirectory() as folder:
        compiled = options.compiled or Path(folder)
        compile_functions(compiled, options.jobs)
        _run(
            *(sys.executable, "-m", "build", "--wheel", "--outdir", str(dist), str(ROOT)),
            environment={"THINSTREAM_COMPILED": str(compiled)},
        )
    (binary,) = set(dist.glob("*.whl")) - {wheel}
    if binary.stat().st_size > LIMIT:
        raise SystemExit(f"{binary.name} has {binary.stat().st_size:,} bytes, more than {LIMIT:,}")
    _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, (wheel, binary, sdist)))
    for package in (wheel, binary):
        require_files(package, sdist, tracked_files())
    for package in (wheel, sdist, binary):
        with tempfile.TemporaryDirectory() as folder:
            _try(package, Path(folder))
            if package == binary:
                use_shipped_code(binary, Path(folder))
        print(f"{package.name}: {package.stat().st_size / 1e6:.1f} MB, installed in a bare environment and run")


def compile_functions(folder: Path, jobs: int) -> None:
    """Compile the functions that a fresh installation calls, for each baseline processor."""
    from thinstream.jit.ahead import Workers
    from thinstream.jit.cache import abi, baselines

    start = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        record = sys.executable, str(FRESH_INSTALL), "record", f"{temporary}/functions"
        _run(*record, cwd=Path(temporary), environment={"PYTHONPATH": str(ROOT / "src")})
        recorded = pickle.loads(Path(temporary, "functions").read_bytes())
    print(f"{len(recorded)} functions are needed ({time.monotonic() - start:.0f} s)", flush=True)
    for baseline in baselines(all_of_them=True):
        target = folder / abi() / baseline
        target.mkdir(parents=True, exist_ok=True)
        wanted = {request.function.shipped_file(request.kinds, baseline).name: request for request in recorded}
        for file in target.iterdir():
            if file.name not in wanted:
                file.unlink()
        requests = {name: request for name, request in wanted.items() if not (target / name).exists()}
        start, workers = time.monotonic(), Workers(requests, min(jobs, len(requests)), baseline, str(target))
        for _ in workers.finished():
            pass
        workers.close()
        if workers.errors:
            raise SystemExit("\n".join(["these functions cannot be compiled:", *workers.errors.values()]))
        for file in target.iterdir():
            file.chmod(0o644)
        size = sum(file.stat().st_size for file in target.iterdir())
        seconds = time.monotonic() - start
        print(f"{baseline}: {len(requests)} functions compiled in {seconds:.0f} s, {size / 1e6:.1f} MB", flush=True)


def emulate(wheel: Path) -> None:
    """Run shipped code on emulated processors that have the instructions of a baseline and no others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _install(wheel, folder)
        use_shipped_code(wheel, folder, PROCESSORS)


def use_shipped_code(wheel: Path, folder: Path, processors: Mapping[str, str] | None = None) -> None:
    """Run every shipped function without numba, and compare the results of all baselines.

    Processors are those of qemu, by baseline. Without them, this processor runs the code.
    """
    from thinstream.jit.cache import abi, baselines

    with zipfile.ZipFile(wheel) as archive:
        inside = [Path(name) for name in archive.namelist() if name.startswith("thinstream/compiled/")]
    python = _python(folder)
    _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pyarrow", "pandas")
    results = {}
    for baseline in processors or baselines():
        shipped = {path.name for path in inside if path.parts[-3:-1] == (abi(), baseline)}
        command = [str(python), str(FRESH_INSTALL), "run", baseline]
        if processors:  # the emulated processor alone decides which code is loaded
            command = ["qemu-x86_64", "-cpu", processors[baseline], *command[:-2], "emulated"]
            os.environ["OPENBLAS_CORETYPE"] = processors[baseline]  # NumPy's BLAS would take AVX for granted
        out = _run(*command, cwd=folder, environment=alone(folder))
        report = json.loads(out.splitlines()[-1])
        if report["compiled"]:
            raise SystemExit(
                f"{baseline}: {len(report['compiled'])} functions are not shipped: {report['compiled'][:9]}"
            )
        missed = sorted(shipped - set(report["loaded"]))
        if missed and not os.environ.get("FRESH_INSTALL_ALGORITHMS"):
            raise SystemExit(f"{baseline}: {len(missed)} shipped functions were not run: {', '.join(missed[:9])}")
        results[baseline] = report["results"]
        print(f"{baseline}: {len(set(report['loaded']))} functions loaded and run without numba", flush=True)
    first = next(iter(results.values()))
    for baseline, other in results.items():
        if different := [name for name in first if first[name] != other[name]]:
            raise SystemExit(f"{baseline} differs in {len(different)} of {len(first)} results: {different[:9]}")


def tracked_files() -> set[str]:
    """Return the files of the package that git tracks."""
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


def alone(folder: Path) -> dict[str, str]:
    """Return environment variables with which a process finds neither our sources nor code that was compiled before."""
    return {"XDG_CACHE_HOME": str(folder / "cache"), "NUMBA_CACHE_DIR": "", "PYTHONPATH": ""}


def _python(folder: Path) -> Path:
    return folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"


def _install(package: Path, folder: Path) -> None:
    _run(sys.executable, "-m", "venv", str(folder / "venv"))
    _run(str(_python(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(package))


def _try(package: Path, folder: Path) -> None:
    _install(package, folder)
    (folder / "own.svm").write_text(SPARSE)
    thinstream = str(_python(folder).with_name("thinstream"))
    for words in (
        ["--version"],
        ["demo"],
        ["train", "own.svm", "--model", "own.ts", "--quiet"],
        ["predict", "own.svm", "--model", "own.ts", "--out", "own.txt"],
        ["export", "own.ts", "own.js"],
        ["datasets"],
    ):
        _run(thinstream, *words, cwd=folder, environment=alone(folder))
    answers = (folder / "own.txt").read_text().split()
    right = sum((k % 2 == 1) == (float(answer) > 0) for k, answer in enumerate(answers))
    if right < 390:
        raise SystemExit(f"{package.name}: {right} of 400 rows are predicted right, at least 390 should be")


def _run(*words: str, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
