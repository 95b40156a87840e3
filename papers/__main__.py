"""The command line: ``python -m papers [NAME ...]``, run from the root of the repository."""

import argparse
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from joblib import cpu_count

from papers.catalogue import chosen, experiments
from papers.data import is_here
from papers.experiment import Experiment
from papers.keeping import Result, keep, kept, these_versions, this_machine
from papers.running import run
from papers.writing import write_page, write_summary
from thinstream.cli.render import show_steps
from thinstream.cli.terminal import guarded_output, keep_going
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    MissingDataError,
    ThinstreamError,
    UnknownNameError,
)
from thinstream.lanes.devices import CHOICES, require_gpu

ABOUT = """Reproduce the papers' tables and figures, and compare the papers' numbers with ours.
Without a name, list the experiments.

If a run stops, repeat the command to resume it. The page of an experiment names the datasets that are missing;
the experiment runs on the others."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        _set_data_folder(options.data)
        if not options.names and not options.pages:
            _list_all()
            return 0
        reproduction = Reproduction(
            options.out, options.jobs, options.device, options.smoke, options.fresh, options.quiet
        )
        with guarded_output():
            keep_going()
            reproduction.run(options.names or ["all"], only_pages=options.pages)
    except (InvalidParameterError, UnknownNameError) as error:
        parser.error(str(error))
    except BrokenPipeError:  # the reader of the output has left, as `head` does
        return 141
    except (ThinstreamError, OSError) as error:
        sys.stderr.write(f"papers: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        "python -m papers", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="an experiment, a paper (p0, p1, p2 or p3), or all")
    add("--data", type=Path, metavar="DIR", help="folder of the datasets (default: THINSTREAM_DATA, then the cache)")
    add(
        "--out",
        "-o",
        type=Path,
        metavar="DIR",
        default=Path("reproduction"),
        help="folder for pages, CSV files and figures; the summary is written to DIR.md (default: %(default)s)",
    )
    add("--jobs", "-j", type=_positive, metavar="N", help="number of processes (default: one per core)")
    add(
        "--device",
        choices=CHOICES,
        default="auto",
        help="where grids are trained; auto uses a GPU if there is one and it is likely to be faster (default: auto)",
    )
    add("--smoke", action="store_true", help="run tiny versions, to check that everything works")
    add("--fresh", action="store_true", help="discard the finished parts of earlier runs")
    add("--pages", action="store_true", help="run nothing; write the pages again from the results in --out")
    add("--quiet", "-q", action="store_true", help="print only errors")
    return parser


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return int(text)


def _set_data_folder(data: Path | None) -> None:
    """Set the folder of the datasets for this process and its children."""
    if data is not None:
        if not data.is_dir():
            raise InvalidInputError(f"--data: there is no folder {data}")
        os.environ["THINSTREAM_DATA"] = str(data.resolve())


def _list_all() -> None:
    """Print every experiment and the datasets it misses."""
    print(f"{'name':<14} {'source':<20} what it shows")
    for experiment in experiments().values():
        needed = sorted({name for cell in experiment.cells(False) for name in cell.needs})
        missing = [name for name in needed if not is_here(name)]
        note = "" if not missing else f" (not here: {', '.join(missing)})"
        print(f"{experiment.name:<14} {experiment.source:<20} {experiment.title}{note}")


@dataclass(frozen=True)
class Reproduction:
    """The options of the command line."""

    out: Path
    jobs: int | None
    device: str
    smoke: bool
    fresh: bool
    quiet: bool

    def run(self, names: list[str], *, only_pages: bool) -> None:
        """Run the experiments one after the other, or write the pages of earlier results."""
        asked = chosen(names)
        if self.device == "cuda" and not only_pages:
            require_gpu()
        self.out.mkdir(parents=True, exist_ok=True)
        for experiment in asked:
            alone = len(asked) == 1
            result = (
                self._find_result(experiment, alone=alone) if only_pages else self._run_one(experiment, alone=alone)
            )
            if result is not None:
                write_page(experiment, result, self.out)
                self._say(f"{self.out / experiment.name}.md")
        self._say(str(write_summary(list(experiments().values()), self.out)))

    def _run_one(self, experiment: Experiment, *, alone: bool) -> Result | None:
        before = kept(self.out, experiment.name)
        if self.smoke and before is not None and not before.smoke:
            raise InvalidInputError(f"{self.out} has real results of {experiment.name}: give a smoke run another --out")
        try:
            with show_steps(experiment.name, self.quiet) as progress:
                done = run(
                    experiment,
                    self.out / ".cells" / (experiment.cells_of or experiment.name),
                    smoke=self.smoke,
                    jobs=self.jobs or cpu_count(),
                    fresh=self.fresh,
                    device=self.device,
                    progress=progress,
                )
        except KeyboardInterrupt:
            sys.stderr.write("stopped; finished parts are saved: repeat the command to resume\n")
            raise
        except MissingDataError as error:
            if alone:
                raise
            sys.stderr.write(f"papers: {error}\n")
            return None
        result = Result(done.rows, done.seconds, done.missing, self.smoke, this_machine(), these_versions())
        keep(self.out, experiment.name, result)
        return result

    def _find_result(self, experiment: Experiment, *, alone: bool) -> Result | None:
        result = kept(self.out, experiment.name)
        if result is None and alone:
            raise InvalidInputError(f"{self.out} has no results of {experiment.name}; run it without --pages first")
        return result

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, flush=True)


if __name__ == "__main__":
    # an exception, so that half-written files are removed and worker processes end
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
