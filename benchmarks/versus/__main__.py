"""The command: ``python -m benchmarks.versus [--sets …] [--tools …] [--data DIR] [--out docs/versus] [--smoke]``."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.versus import accuracy, thinned, times, tried, untuned
from benchmarks.versus.cells import Row, gathered, kept
from benchmarks.versus.judging import OURS
from benchmarks.versus.sets import SETS, source
from benchmarks.versus.tools import TOOLS
from papers.data import is_here

ABOUT = """thinstream beside its peers on real sets. First what is learned, which may share the machine with other work;
--times measures times, for which it should be quiet. What is done is kept, so a run that was stopped goes on."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.versus", description=ABOUT)
    parser.add_argument("--sets", default=",".join(SETS), help="names of sets, with commas (default: all)")
    parser.add_argument("--tools", default=",".join(TOOLS), help="names of tools, with commas (default: all)")
    parser.add_argument("--data", type=Path, help="folder of the data sets (default: THINSTREAM_DATA)")
    parser.add_argument("--out", type=Path, help="writes OUT.md, OUT.csv, OUT*.png (default: docs/versus)")
    parser.add_argument(
        "--scratch", type=Path, default=Path("build/versus"), help="for texts and finished cells (default: %(default)s)"
    )
    parser.add_argument("--times", action="store_true", help="measure times, not what is learned")
    parser.add_argument("--auto", action="store_true", help="Auto, which is not tuned, beside what the others learn")
    parser.add_argument("--thin", action="store_true", help="Auto, refitted on few features")
    parser.add_argument("--tried", action="store_true", help="what was tried once the test errors were known")
    parser.add_argument("--pages", action="store_true", help="write the page of what is kept, and run nothing")
    parser.add_argument("--smoke", action="store_true", help="a few rows of each set: the numbers mean nothing")
    options = parser.parse_args(arguments)
    if options.out is None:  # a smoke run must not replace the page
        options.out = options.scratch / "versus" if options.smoke else Path("docs/versus")
    if options.data:
        os.environ["THINSTREAM_DATA"] = str(options.data.resolve())
    here = {name for name in SETS if is_here(source(name))}
    able = {name for name, tool in TOOLS.items() if not tool.missing()}
    names = _chosen(options.sets, SETS, here, "is not in the data folder")
    tools = _chosen(options.tools, TOOLS, able, "is not installed")
    cells = options.scratch / ("smoke" if options.smoke else "cells")
    if not options.pages:
        kinds = {"times": times, "tried": tried, "auto": untuned, "thin": thinned, "accuracy": accuracy}
        kind = next((kind for kind in kinds if getattr(options, kind, False)), "accuracy")
        part: Any = kinds[kind]
        for name in names:
            for tool in [OURS] if kind in ("tried", "auto", "thin") else tools:
                cell = name, tool, options.scratch, options.smoke
                _cell(cells / kind, f"{name} {tool}", part.state(*cell), partial(part.measured, *cell))
    from benchmarks.versus import page

    page.write(options.out, gathered(cells), smoke=options.smoke)


def _cell(folder: Path, key: str, state: object, work: Callable[[], list[Row]]) -> None:
    start = time.perf_counter()
    kept(folder, key, state, work)
    print(f"{folder.name}, {key}: {time.perf_counter() - start:.1f} s", flush=True)


def _chosen(asked: str, known: Container[str], able: Container[str], why: str) -> list[str]:
    """The names asked for; those that cannot be had are told."""
    names = [name.strip() for name in asked.split(",")]
    for name in names:
        if name not in known:
            sys.exit(f"there is no {name!r}; known are {', '.join(known)}")  # type: ignore[arg-type]
        if name not in able:
            print(f"{name} {why}", file=sys.stderr)
    return [name for name in names if name in able]


if __name__ == "__main__":
    main()
