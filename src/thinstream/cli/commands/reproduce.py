"""``thinstream reproduce``: the papers' tables and figures."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thinstream.errors import InvalidInputError, MissingDataError

if TYPE_CHECKING:
    from thinstream.experiments.experiment import Experiment
    from thinstream.experiments.keeping import Result


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Experiments; all, or p0 … p3 for those of one paper.", show_default=False
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the data sets (default: THINSTREAM_DATA, else the cache).", show_default=False),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where pages, CSV and pictures go; the summary goes beside it.")
    ] = Path("reproduction"),
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes (default: one per core).", show_default=False)
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="Of grids: cpu, cuda (a GPU, see docs/gpu.md), or auto (default): a GPU where there is one and it "
            "pays.",
            show_default=False,
        ),
    ] = "auto",
    smoke: Annotated[bool, typer.Option("--smoke", help="Tiny sizes, to see that everything runs.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget finished parts of earlier runs.")] = False,
    pages: Annotated[
        bool, typer.Option("--pages", help="Run nothing: write the pages again from the results in --out.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Make the papers' tables and figures anew, the papers' numbers beside ours; without a name, list them.

    A run that is stopped goes on where it was when the same command is given again. Data sets that are not there are
    left out and named on the page.
    """
    _look_in(data)
    if names or pages:
        from thinstream.cli.terminal import keep_going

        keep_going()
        Reproduction(out, jobs, device, smoke, fresh, quiet).run(names or ["all"], only_pages=pages)
    else:
        _list_all()


def _list_all() -> None:
    """Prints every experiment, and which of its data sets are not there."""
    from thinstream.experiments.catalogue import experiments
    from thinstream.experiments.data import is_here

    print(f"{'name':<14} {'source':<20} what it shows")
    for experiment in experiments().values():
        needed = sorted({name for cell in experiment.cells(False) for name in cell.needs})
        missing = [name for name in needed if not is_here(name)]
        note = "" if not missing else f" (not here: {', '.join(missing)})"
        print(f"{experiment.name:<14} {experiment.source:<20} {experiment.title}{note}")


@dataclass(frozen=True)
class Reproduction:
    """The command's options."""

    out: Path
    jobs: int | None
    device: str
    smoke: bool
    fresh: bool
    quiet: bool

    def run(self, names: list[str], *, only_pages: bool) -> None:
        """Runs the experiments one after the other, or writes the pages of what was run before."""
        from thinstream.experiments.catalogue import chosen, experiments
        from thinstream.experiments.writing import write_page, write_summary
        from thinstream.lanes.devices import chosen_device, require_gpu

        asked = chosen(names)
        chosen_device(self.device, 0, 1)  # raises
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

    def _run_one(self, experiment: "Experiment", *, alone: bool) -> "Result | None":
        from thinstream.cli.progress import show_steps
        from thinstream.experiments.keeping import Result, keep, kept, these_versions, this_machine
        from thinstream.experiments.running import processors, run

        before = kept(self.out, experiment.name)
        if self.smoke and before is not None and not before.smoke:
            raise InvalidInputError(f"{self.out} has real results of {experiment.name}: give a smoke run another --out")
        try:
            with show_steps(experiment.name, self.quiet) as progress:
                done = run(
                    experiment,
                    self.out / ".cells" / (experiment.cells_of or experiment.name),
                    smoke=self.smoke,
                    jobs=self.jobs or processors(),
                    fresh=self.fresh,
                    device=self.device,
                    progress=progress,
                )
        except KeyboardInterrupt:
            sys.stderr.write("stopped; what is finished is kept: the same command goes on from there\n")
            raise
        except MissingDataError as error:
            if alone:
                raise
            sys.stderr.write(f"thinstream: {error}\n")
            return None
        result = Result(done.rows, done.seconds, done.missing, self.smoke, this_machine(), these_versions())
        keep(self.out, experiment.name, result)
        return result

    def _find_result(self, experiment: "Experiment", *, alone: bool) -> "Result | None":
        from thinstream.experiments.keeping import kept

        result = kept(self.out, experiment.name)
        if result is None and alone:
            raise InvalidInputError(f"{self.out} has no results of {experiment.name}; run it without --pages first")
        return result

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, flush=True)


def _look_in(data: Path | None) -> None:
    """The folder of the data sets, for this process and those it starts."""
    if data is not None:
        if not data.is_dir():
            raise InvalidInputError(f"--data: there is no folder {data}")
        os.environ["THINSTREAM_DATA"] = str(data.resolve())
