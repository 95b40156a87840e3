"""Labels in a file of their own: options of ``thinstream train``, the run, and what is said of it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from thinstream.cli.declared import option
from thinstream.cli.options import Reading
from thinstream.errors import InvalidParameterError

if TYPE_CHECKING:
    from thinstream.late_labels.run import LateRun
    from thinstream.late_labels.stream import JoinedStream
    from thinstream.models.model import Model

_PANEL = "Labels that come later"
KEEP = 1_000_000


@dataclass(frozen=True)
class LateLabels:
    """Where labels come from, and how long rows wait for them."""

    label_file: Annotated[
        str | None,
        option(
            "Labels come in this file: id, label, and weight if --weight names it. Rows wait for theirs.",
            _PANEL,
            "--labels",
            metavar="FILE",
        ),
    ] = None
    row_id: Annotated[str | None, option("Column of the id, in both files.", _PANEL, "--id", metavar="COLUMN")] = None
    time: Annotated[
        str | None,
        option(
            "Column of the time, in both files, in whose order they are taken. Without it all rows come first.",
            _PANEL,
            metavar="COLUMN",
        ),
    ] = None
    keep: Annotated[int, option(f"Rows that may wait; of more the oldest expire (default {KEEP}).", _PANEL, min=1)] = (
        KEEP
    )
    wait: Annotated[
        float | None, option("Seconds of --time that a row may wait (default: for ever).", _PANEL, min=0.0)
    ] = None
    waiting: Annotated[
        Path | None, option("A file for the rows that wait, which a later run goes on with.", _PANEL, metavar="FILE")
    ] = None

    @property
    def used(self) -> bool:
        """Whether labels come in a file of their own."""
        return self.label_file is not None

    def check(self, given: Any, data: list[str]) -> None:
        """Raises where options do not go together."""
        names = {"row_id": "--id", "time": "--time", "keep": "--keep", "wait": "--wait", "waiting": "--waiting"}
        if not self.used:
            for name, shown in names.items():
                if name in given:
                    raise InvalidParameterError(f"{shown} is for rows whose labels come in a file: --labels FILE")
            return
        if self.row_id is None:
            raise InvalidParameterError("--labels needs --id COLUMN: what tells which label is of which row")
        for name, shown in (
            ("engine", "--engine"), ("passes", "--passes"), ("cache", "--cache"), ("resume", "--resume"),
            ("checkpoint", "--checkpoint"), ("checkpoint_every", "--checkpoint-every"),
            ("checkpoint_seconds", "--checkpoint-seconds"),
        ):  # fmt: skip
            if name in given:
                raise InvalidParameterError(
                    f"{shown} does not go with --labels: rows that wait are no part of it; --waiting FILE keeps them"
                )
        if self.wait is not None and self.time is None:
            raise InvalidParameterError("--wait counts seconds of a column: name it with --time")
        if self.time is not None and "-" in (*data, self.label_file):
            raise InvalidParameterError(
                "--time needs files: times are read beside the rows, a pipe can be read once only"
            )

    def rows_read(self, reading: Reading) -> Reading:
        """How rows are read: without labels; ids and times are no features."""
        named = [name for name in (self.row_id, self.time, reading.weight) if name is not None]
        ignore = tuple(dict.fromkeys([*reading.ignore, *named]))
        return replace(
            reading, labels=False, id=self.row_id, ignore=ignore, weight=None, strict=False, classes=None,
            grow_classes=False,
        )  # fmt: skip

    def labels_read(self, reading: Reading) -> Reading:
        """How labels are read."""
        return Reading(
            classes=reading.classes, grow_classes=reading.grow_classes, label=reading.label, weight=reading.weight,
            on_error=reading.on_error, max_errors=reading.max_errors, header=reading.header, id=self.row_id,
            look=reading.look, found=reading.found,
        )  # fmt: skip

    def look_first(self, data: list[str], reading: Reading, *, quiet: bool) -> Reading:
        """The options with the columns of the rows, and the classes of the file of labels."""
        from thinstream.cli.io import look_first

        assert self.label_file is not None
        rows = look_first(data, self.rows_read(reading), quiet=quiet)
        labels = look_first([self.label_file], self.labels_read(reading), quiet=quiet)
        return replace(
            reading, classes=labels.classes, header=rows.header, numeric=rows.numeric, dates=rows.dates, text=rows.text,
            found=rows.found,
        )  # fmt: skip

    def join(self, data: list[str], reading: Reading, model: "Model") -> "JoinedStream":
        """The rows with their labels, as these come."""
        from thinstream.late_labels.stream import Clock, JoinedStream, Timed
        from thinstream.late_labels.waiting import Waiting
        from thinstream.streams.opening import open_files

        assert self.label_file is not None
        if model.learner.reads != "once":
            raise InvalidParameterError(
                f"{model.learner.algorithm.name} holds its rows: --labels is for online learners"
            )
        dtype = model.learner.dtype.name

        def timed(paths: Any, options: Reading, named: str) -> Timed:
            options = replace(options, dtype=dtype)
            times = None if self.time is None else open_files(paths, replace(options, id=self.time, labels=False))
            return Timed(open_files(paths, options), times, named)

        clock = Clock()
        return JoinedStream(
            timed(data, self.rows_read(reading), ", ".join(data)),
            timed([self.label_file], self.labels_read(reading), self.label_file),
            model.learner,
            Waiting(self.keep, self.wait, self.waiting, clock),
            clock,
        )

    @property
    def kind_of_run(self) -> "type[LateRun]":
        """What goes over such a stream."""
        from thinstream.late_labels.run import LateRun

        return LateRun


def counts_of(stream: "JoinedStream") -> dict[str, int]:
    """What became of rows and labels."""
    return {**stream.waiting.counts, "waiting": len(stream.waiting)}


def describe(stream: "JoinedStream") -> str:
    """The same in a line."""
    counts = counts_of(stream)
    parts = [f"{counts['learned']:,} learned"]
    parts += [f"{counts[name]:,} {name}" for name in ("unknown", "expired", "repeated") if counts[name]]
    return f"{'labels':<18} {', '.join(parts)}; {counts['waiting']:,} of {counts['predicted']:,} rows wait for theirs"


_WHY = {
    "unknown": "no row has had these ids",
    "expired": "their rows have waited too long, or more rows than --keep came after them",
    "repeated": "these ids have had their label",
}


def remarks(stream: "JoinedStream") -> list[str]:
    """What is to be said of labels without a row."""
    found = []
    for name, why in _WHY.items():
        many, ids = stream.waiting.counts[name], stream.unmatched.get(name, [])
        if many:
            more = " …" if many > len(ids) else ""
            found.append(f"thinstream: {many:,} labels are {name}, {why}: {', '.join(map(str, ids))}{more}")
    return found
