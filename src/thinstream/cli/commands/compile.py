"""``thinstream compile``: compile functions before their first use."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from thinstream.cli.options import DEFAULT_LEARNER, argument, learner_names, option

if TYPE_CHECKING:
    from thinstream.jit.ahead import Request

#: Rows in every text format, by the ending of its files.
ROWS = {
    ".svm": "1 1:1 3:2\n-1 2:1\n" * 10,
    ".vw": "1 |a x |b y:2\n-1 | c\n",
    ".csv": "label,a,b,c\n1,0.5,x,2024-05-17\n-1,2,y,\n",
    ".jsonl": '{"label": 1, "a": 0.5, "b": "x", "c": "2024-05-17"}\n{"label": -1, "a": 2}\n',
}
#: Multiclass rows. A model with few classes trains its outputs one after another, and one with many in lanes.
CLASSES = {"three.svm": 3, "ten.svm": 10}


def compile(  # noqa: A001 (the command's name)
    names: Annotated[
        list[str] | None, argument("Algorithms (default: auto).", metavar="NAME", values=learner_names)
    ] = None,
    everything: Annotated[bool, option("Compile all algorithms and all parsers.", None, "--all")] = False,
    tuning: Annotated[bool, option("Also compile for tune, path and costs, which takes longer.")] = False,
    dtype: Annotated[str, option("float32 (default) or float64.")] = "float32",
    jobs: Annotated[
        int | None, option("The number of processes (default: one per core).", None, "--jobs", "-j", min=1)
    ] = None,
    quiet: Annotated[bool, option("Print nothing but errors.", None, "--quiet", "-q")] = False,
) -> None:
    """Compile algorithms for this machine before their first use.

    Wheels contain compiled code for all algorithms and formats, for every processor of the last ten years. Code that
    this command compiles for your processor can be a few percent faster. Without a wheel, the first use of an algorithm
    compiles it, which takes seconds. Run this command when you build a container or set up a service.

    The code is cached in ~/.cache/thinstream, or in the folder NUMBA_CACHE_DIR. The command compiles what other
    commands need with default parameters. Other options, such as diagonal or covariance, are compiled when they are
    first used.
    """
    from thinstream.algorithms.registry import algorithms, find
    from thinstream.cli.render import say, show_steps
    from thinstream.engine.protocol import dtype_of
    from thinstream.errors import InvalidInputError
    from thinstream.jit.ahead import Workers, n_cores

    chosen = [DEFAULT_LEARNER, *(a.name for a in algorithms())] if everything else names or [DEFAULT_LEARNER]
    tasks = [(find(name).name, commands_of(name, dtype_of(dtype, find(name).name).name, tuning)) for name in chosen]
    if everything:
        tasks += [(f"rows{ending}", conversions(ending)) for ending in ROWS]
    _require_cache()
    requests = requests_of([command for _, commands in tasks for command in commands])
    workers = Workers(requests, min(jobs or n_cores(), len(requests)))
    try:
        with show_steps("compiling", quiet) as progress:
            for done, request in enumerate(workers.finished(), 1):
                progress(done, len(requests), request.function.title)
    finally:
        workers.close()
    if workers.errors:
        raise InvalidInputError(
            f"{len(workers.errors)} functions cannot be compiled: {next(iter(workers.errors.values()))}"
        )
    if not quiet:
        say(f"compiled for this machine: {', '.join(name for name, _ in tasks)}")


def _require_cache() -> None:
    """Raise if compiled code cannot be cached for other processes."""
    from thinstream.errors import FileWriteError
    from thinstream.jit.cache import folder_to_write

    if folder_to_write() is None:
        raise FileWriteError("compiled code cannot be cached: NUMBA_CACHE_DIR must be a writable folder")


def conversions(ending: str) -> list[list[str]]:
    """Return command lines that need everything that reading a format compiles: plain, crosses, texts, dates."""
    from thinstream.data.formats import find_format, format_of

    convert = ["convert", f"rows{ending}", "--out", "rows.cache", "-q"]
    row_format = find_format(format_of(f"rows{ending}"))
    more = {"cross": ["--cross", "a,b"], "text": ["--text", "b"], "dates": ["--dates", "c"]}
    return [convert, *([*convert, *words] for option, words in more.items() if row_format.takes(option))]


def commands_of(name: str, dtype: str, tuning: bool) -> list[list[str]]:
    """Return command lines that need everything that an algorithm compiles."""
    from contextlib import suppress

    from thinstream.algorithms.registry import find
    from thinstream.errors import InvalidParameterError
    from thinstream.models.model import make_learner
    from thinstream.tuning.search import paper_grid

    data = ["rows.svm", "-a", name, "--dtype", dtype, "-q"]
    train = ["train", *data, "--features", "3", "-m", "model"]
    commands = [train, ["predict", "rows.svm", "-m", "model", "-o", "labels", "-q"]]
    if not tuning or find(name).kind != "online":
        return commands
    with suppress(InvalidParameterError):  # an algorithm that must know the number of features
        make_learner(name, n_features=0, grow=True)
        commands.append(["costs", *data])
        if "l1" in [parameter.name for parameter in find(name).parameters]:
            commands.append(["path", *data])
        paper_grid(name)  # raises for an algorithm that has nothing to tune
        commands.append(["tune", *data])
    return commands


def requests_of(commands: list[list[str]]) -> "dict[str, Request]":
    """Run command lines on a few rows, as plain Python, and return the functions that they would compile."""
    from thinstream.errors import InvalidInputError
    from thinstream.jit.ahead import rehearse

    with rehearse(ignores_files=True) as rehearsal, folder_of_rows():
        for command in commands:
            code, errors = _run_silently(command)
            if code:
                raise InvalidInputError(f"thinstream {' '.join(command)} failed: {errors.strip()}")
    return rehearsal.requests


def _run_silently(command: list[str]) -> tuple[int, str]:
    """Return the exit code of a command line and what it wrote to standard error."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    from thinstream.cli.app import run

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as errors:
        return run(command), errors.getvalue()


@contextmanager
def folder_of_rows() -> Iterator[None]:
    """Change to a temporary folder with some rows in every format."""
    import tempfile
    from contextlib import chdir
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for ending, text in ROWS.items():
            Path(f"rows{ending}").write_text(text)
        for name, n_classes in CLASSES.items():
            Path(name).write_text("".join(f"{k % n_classes} {k % n_classes + 1}:1 20:2\n" for k in range(40)))
        yield
