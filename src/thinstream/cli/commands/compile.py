"""``thinstream compile``: compiled code ahead of its first use."""

from typing import Annotated

import typer

from thinstream.cli.completing import learner_names, offer
from thinstream.cli.declared import option
from thinstream.cli.options import DEFAULT_LEARNER

#: Rows in every format of text, by the ending of its files.
ROWS = {
    ".svm": "1 1:1 3:2\n-1 2:1\n" * 10,
    ".vw": "1 |a x |b y:2\n-1 | c\n",
    ".csv": "label,a,b,c\n1,0.5,x,2024-05-17\n-1,2,y,\n",
    ".jsonl": '{"label": 1, "a": 0.5, "b": "x", "c": "2024-05-17"}\n{"label": -1, "a": 2}\n',
}


def compile(  # noqa: A001 (the command's name)
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Algorithms (default: that of train).",
            show_default=False,
            autocompletion=offer(learner_names),
        ),
    ] = None,
    everything: Annotated[bool, option("All algorithms, and parsers of all formats.", None, "--all")] = False,
    tuning: Annotated[bool, option("Also for tune, path and costs, which takes longer.", None, "--tuning")] = False,
    dtype: Annotated[str, option("float32 (default) or float64.")] = "float32",
    jobs: Annotated[int | None, option("Processes (default: one per core).", None, "--jobs", "-j", min=1)] = None,
    quiet: Annotated[bool, option("Say nothing but errors.", None, "--quiet", "-q")] = False,
) -> None:
    """Compile algorithms ahead of their first use on this machine: when a container is built, a service set up.

    The first use of an algorithm compiles it, which takes seconds, and keeps the code (beside the library, or where
    NUMBA_CACHE_DIR says). Here all commands are run on a few rows, with default parameters; what others select, as
    diagonal or covariance, is compiled when it is first used.
    """
    from concurrent.futures import ThreadPoolExecutor, as_completed

    from joblib import cpu_count

    from thinstream.cli.progress import show_steps
    from thinstream.cli.render import say
    from thinstream.learners.learner import dtype_of
    from thinstream.learners.registry import algorithms, find

    wanted = [DEFAULT_LEARNER, *(each.name for each in algorithms())] if everything else names or [DEFAULT_LEARNER]
    tasks = [(find(name).name, commands_of(name, dtype_of(dtype, find(name).name).name, tuning)) for name in wanted]
    if everything:
        tasks += [(f"rows{ending}", conversions(ending)) for ending in ROWS]
    _require_cache()
    with show_steps("compiling", quiet) as progress, ThreadPoolExecutor(jobs or cpu_count()) as pool:
        futures = {pool.submit(_run, commands): name for name, commands in tasks}
        for done, future in enumerate(as_completed(futures), 1):
            future.result()
            progress(done, len(tasks), futures[future])
    if not quiet:
        say(f"compiled for this machine: {', '.join(name for name, _ in tasks)}")


def _require_cache() -> None:
    """Raises where compiled code cannot be kept for other processes."""
    from thinstream.errors import FileWriteError
    from thinstream.jit.keeping import folder_to_write

    if folder_to_write() is None:
        raise FileWriteError("compiled code cannot be kept: NUMBA_CACHE_DIR must name a folder that can be written")


def conversions(ending: str) -> list[list[str]]:
    """Command lines that need all that reading a format compiles: as it is, crossed, with texts, with dates."""
    from thinstream.streams.formats import find_format, format_of

    convert = ["convert", f"rows{ending}", "--out", "rows.cache", "-q"]
    known = find_format(format_of(f"rows{ending}"))
    more = {"cross": ["--cross", "a,b"], "text": ["--text", "b"], "dates": ["--dates", "c"]}
    return [convert, *([*convert, *words] for option, words in more.items() if known.takes(option))]


def commands_of(name: str, dtype: str, tuning: bool) -> list[list[str]]:
    """Command lines that need all that an algorithm compiles."""
    from contextlib import suppress

    from thinstream.errors import InvalidParameterError
    from thinstream.learners import make_learner
    from thinstream.learners.registry import find
    from thinstream.tune.candidates import paper_grid

    data = ["rows.svm", "-a", name, "--dtype", dtype, "-q"]
    train = ["train", *data, "--features", "3", "-m", "model"]
    found = [train, ["predict", "rows.svm", "-m", "model", "-o", "labels", "-q"]]
    if not tuning or find(name).kind != "online":
        return found
    with suppress(InvalidParameterError):  # of one that must know how many features there are
        make_learner(name, n_features=0, grow=True)
        found.append(["costs", *data])
        if "l1" in [parameter.name for parameter in find(name).parameters]:
            found.append(["path", *data])
        paper_grid(name)  # or of one that has nothing to tune
        found.append(["tune", *data])
    return found


def _run(commands: list[list[str]]) -> None:
    """Runs command lines, each as a process of its own, in a folder with some rows."""
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    from thinstream.errors import InvalidInputError

    with tempfile.TemporaryDirectory() as folder:
        for ending, text in ROWS.items():
            Path(folder, f"rows{ending}").write_text(text)
        for arguments in commands:
            command = [sys.executable, "-m", "thinstream", *arguments]
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode:
                raise InvalidInputError(f"thinstream {' '.join(arguments)} failed: {done.stderr.strip()}")
