"""Wall time, peak memory and speed of training on six large libsvm files, by AROW and by Auto.

    python -m benchmarks.scale [--gigabytes 2] [--keep FOLDER] [--algorithms arow,auto]

Caveats first. The text is that of ``streams.py`` (about 65 non-zeros per row, 47,000 features), repeated until the six
files have the given size. They are in the page cache if memory allows it. One pass, whole processes from start to the
model on disk, with compiled code in the cache: a run on a small file comes first. One run, not a median.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.streams import describe, generated

FILES = 6
#: Numbers of hashed features.
FEATURES = (20_000, 500_000, 2_000_000)
#: Runs in a small process, because a child's peak begins with the memory of its parent.
MEASURE = """
import resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True)
wall, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
print(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)
"""


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.scale", description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the six files together (default: 2)")
    parser.add_argument("--keep", type=Path, help="a folder for the generated files, used again if they are there")
    parser.add_argument("--algorithms", default="arow,auto", help="algorithms to measure (default: %(default)s)")
    options = parser.parse_args()
    print(f"Machine: {describe()}\n")
    with ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="thinstream-scale-")))
        small, files = texts(folder, round(options.gigabytes * 1e9))
        size = sum(file.stat().st_size for file in files)
        print(
            f"{len(files)} files, {size / 1e9:.1f} GB\n\n{'':6s}{'seconds':>9s}{'MB/s':>8s}{'CPU s':>8s}{'peak MB':>9s}"
        )
        algorithms = options.algorithms.split(",")
        for algorithm in algorithms:
            trained(algorithm, [small], folder)
            wall, cpu, peak = trained(algorithm, files, folder)
            print(f"{algorithm:6s}{wall:9.1f}{size / wall / 1e6:8,.0f}{cpu:8.1f}{peak:9,.0f}", flush=True)
        print("\nPeak MB by hashed features that occur. For each algorithm: training, then with the model saved\n")
        for features in FEATURES:
            words = [vocabulary(folder, features)]
            cases = [(name, words, folder, saved, "--bits", "26") for name in algorithms for saved in (False, True)]
            peaks = [trained(*case)[2] for case in cases]
            print(f"{features:9,}" + "".join(f"{peak:9,.0f}" for peak in peaks), flush=True)


def texts(folder: Path, size: int) -> tuple[Path, list[Path]]:
    """Return a small file, and files that together have the given number of bytes."""
    text, _ = generated(folder)
    rows = Path(text).read_bytes()
    small = folder / "small.svm"
    small.write_bytes(rows[: rows.index(b"\n", 1 << 20) + 1])
    files = [folder / f"part-{k}.svm" for k in range(FILES)]
    for file in files:
        if not file.exists() or abs(file.stat().st_size - size / FILES) > 1e6:
            copies, rest = divmod(size // FILES, len(rows))
            with file.open("wb") as out:
                for _ in range(copies):
                    out.write(rows)
                out.write(rows[: rows.rindex(b"\n", 0, rest) + 1] if rest > 1e5 else b"")
    return small, files


def vocabulary(folder: Path, features: int) -> Path:
    """Return a file with the given number of names, each of which occurs once, in rows of twenty."""
    path, rng = folder / f"names-{features}.vw", random.Random(1)
    if not path.exists():
        with path.open("w") as out:
            for start in range(0, features, 20):
                names = " ".join(f"u{k}" for k in range(start, start + 20))
                out.write(f"{rng.choice(('1 |w good', '-1 |w bad'))} {names}\n")
    return path


def trained(algorithm: str, files: list[Path], folder: Path, saved: bool = True, *options: str) -> list[float]:
    """Return wall seconds, CPU seconds and peak megabytes of a training process."""
    command = [sys.executable, "-m", "thinstream", "train", *map(str, files), "-a", algorithm, "--quiet"]
    command += [*options, *(["-m", str(folder / "model.ts")] if saved else [])]
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], check=True, stdout=subprocess.PIPE, text=True)
    return [float(number) for number in done.stdout.split()]


if __name__ == "__main__":
    main()
