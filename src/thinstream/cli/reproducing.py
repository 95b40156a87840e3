"""What ``thinstream reproduce`` does."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from thinstream.errors import InvalidInputError, MissingDataError
from thinstream.experiments.catalogue import chosen, experiments
from thinstream.experiments.data import is_here
from thinstream.experiments.experiment import Experiment
from thinstream.experiments.keeping import Result, keep, kept, these_versions, this_machine
from thinstream.experiments.running import Progress, processors, run
from thinstream.experiments.writing import write_page, write_summary


def listing(data: Path | None) -> None:
    """Every experiment, and which of its data sets are not there."""
    _look_in(data)
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
    data: Path | None
    jobs: int | None
    smoke: bool
    fresh: bool
    quiet: bool

    def reproduce(self, names: list[str], *, only_pages: bool) -> None:
        """Runs the experiments one after the other, or writes the pages of what was run before."""
        _look_in(self.data)
        asked = chosen(names)
        self.out.mkdir(parents=True, exist_ok=True)
        for experiment in asked:
            alone = len(asked) == 1
            result = self._kept(experiment, alone=alone) if only_pages else self._run(experiment, alone=alone)
            if result is not None:
                write_page(experiment, result, self.out)
                self._say(f"{self.out / experiment.name}.md")
        self._say(str(write_summary(list(experiments().values()), self.out)))

    def _run(self, experiment: Experiment, *, alone: bool) -> Result | None:
        before = kept(self.out, experiment.name)
        if self.smoke and before is not None and not before.smoke:
            raise InvalidInputError(f"{self.out} has real results of {experiment.name}: give a smoke run another --out")
        try:
            with _bar(experiment, self.quiet) as progress:
                done = run(
                    experiment,
                    self.out / ".cells" / (experiment.cells_of or experiment.name),
                    smoke=self.smoke,
                    jobs=self.jobs or processors(),
                    fresh=self.fresh,
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

    def _kept(self, experiment: Experiment, *, alone: bool) -> Result | None:
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


@contextmanager
def _bar(experiment: Experiment, quiet: bool) -> Iterator[Progress]:
    """A progress bar on a terminal; elsewhere nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, of, key: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    with Bars(
        TextColumn(experiment.name),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}"),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        task = bars.add_task(experiment.name, total=None, last="")
        yield lambda done, of, key: bars.update(task, completed=done, total=of, last=key)
