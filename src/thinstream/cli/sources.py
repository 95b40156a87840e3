"""Sources of ``thinstream train`` other than files with labels: messages of a broker, and labels in a separate file."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from thinstream.cli.options import Reading, option
from thinstream.data.brokers import ON_GAP, Following, is_address, shown
from thinstream.errors import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from thinstream.training.delayed_labels import JoinedStream, LateLabelSource
    from thinstream.training.live import BrokerSource


_MESSAGES = "Messages (redis://, nats://, kafka://)"
#: Options that cannot be used with a broker, and why.
_NOT_FOR_BROKERS = {
    "cache": "a cache belongs to a file",
    "passes": "messages are read once",
    "engine": "one process reads them",
    "mode": "one process reads them",
    "label_file": "checkpoints do not store waiting rows",
}


@dataclass(frozen=True)
class Messages:
    """Options for messages of a broker: when to stop, and what to do with invalid messages."""

    rows: Annotated[
        int | None,
        option("Stop after this number of rows, including rows before --resume (default: never).", _MESSAGES, min=1),
    ] = None
    idle_seconds: Annotated[
        float | None,
        option("Stop if no message arrives for this time, in seconds (default: never).", _MESSAGES, min=0.0),
    ] = None
    dead_letters: Annotated[
        str | None,
        option(
            "Write invalid messages, with the reason, to this file of JSON Lines (default: MODEL.dead-letters), or to "
            "stream:NAME, a stream (subject, topic) of the same broker.",
            _MESSAGES,
            metavar="FILE|stream:NAME",
        ),
    ] = None
    on_gap: Annotated[
        str,
        option(
            "If the broker has removed messages before they were read: stop with an error (default), or continue "
            "without them and report how many are missing.",
            _MESSAGES,
            values=ON_GAP,
        ),
    ] = "stop"

    def check(self, specified: Any, data: list[str]) -> bool:
        """Return whether the data comes from a broker. Raise if options cannot be used together."""
        if not is_address(data):
            for field in fields(self):
                if field.name in specified:
                    raise InvalidParameterError(
                        f"--{field.name.replace('_', '-')} can only be used with redis://, nats:// or kafka://, got "
                        f"{', '.join(data)}"
                    )
            return False
        for name, why in _NOT_FOR_BROKERS.items():
            if name in specified:
                flag = "labels" if name == "label_file" else name
                raise InvalidParameterError(f"--{flag} cannot be used with messages of a broker: {why}")
        self.following(None).check()
        return True

    def as_asked(self, data: list[str], reading: Reading) -> Reading:
        """Return the options with the format of the messages."""
        from thinstream.data.brokers import only_address
        from thinstream.data.brokers.stream import format_in

        return replace(reading, format=format_in(only_address(data), reading).name)

    def following(self, model: Path | None) -> Following:
        """Return these options for the reader. By default, dead letters go to a file next to the model."""
        letters = self.dead_letters or (f"{model}.dead-letters" if model is not None else None)
        return Following(self.rows, self.idle_seconds, letters, self.on_gap)

    def look_first(self, data: list[str], reading: Reading, *, quiet: bool) -> Reading:
        """Infer options from the first messages, print what was inferred, and return the options."""
        from thinstream.cli.render import say
        from thinstream.data.brokers.stream import infer_source

        inferred = infer_source(data, reading, Following(idle_seconds=self.idle_seconds))
        for message in () if quiet else inferred.messages:
            say(message)
        return inferred.options

    def messages(self, data: list[str], reading: Reading, model: Path | None) -> "BrokerSource":
        from thinstream.training.live import BrokerSource

        return BrokerSource(data, reading, self.following(model))


def as_before(reading: Reading, checkpoint: Path) -> Reading:
    """Return the options with those that the checkpoint's run inferred. The first messages may be gone by now."""
    from thinstream.data.options import OPTIONS, as_learned, spelling
    from thinstream.models.file import read

    assert reading.format is not None
    model = read(checkpoint)
    source = model.extra.get("run", {}).get("source", {})
    saved = {name: source[name] for name in OPTIONS if name in source and spelling(OPTIONS[name]).remembered}
    return as_learned(reading, reading.format, model.reading_spec._replace(reading=saved), str(checkpoint))


def shown_names(data: list[str]) -> str:
    """Return the data as messages show it, without passwords."""
    return ", ".join(map(shown, data))


def require_learned(run: Any, names: str, source: Messages, model: Path | None) -> None:
    """Raise if no message was valid."""
    position = run.state.position
    if not run.skipped or position.row + position.skip:
        return
    letters, reasons = source.following(model).dead_letters, run.stream.skipped.reasons
    where = "" if letters is None else f" They are in {letters}."
    why = f" The first error: {reasons[0]}" if reasons else ""
    raise InvalidInputError(
        f"{names}: none of {run.skipped:,} messages is valid {run.stream.reading['format']}. Pass --format if they "
        f"have another format.{where}{why}"
    )


def say_stopped(run: Any, checkpoint: Path | None) -> None:
    """Print why a run stopped and how to resume it."""
    from thinstream.cli.render import say

    why = "stopped" if run.stopped is None else f"stopped by {run.stopped}"
    rows = run.state.position.row + run.state.position.skip
    how = "" if checkpoint is None else f"; to continue from {checkpoint}, pass --resume"
    say(f"thinstream: {why} after {rows:,} rows{how}")


# Labels in a separate file.

_LABELS = "Delayed labels"
KEEP = 1_000_000


@dataclass(frozen=True)
class LateLabels:
    """Options for delayed labels: their file, and how long rows wait for them."""

    label_file: Annotated[
        str | None,
        option(
            "Read labels from this file with the columns id, label, and weight if --weight is set. Rows wait for them.",
            _LABELS,
            "--labels",
            metavar="FILE",
        ),
    ] = None
    row_id: Annotated[str | None, option("The id column, in both files.", _LABELS, "--id", metavar="COLUMN")] = None
    time: Annotated[
        str | None,
        option(
            "The time column, in both files. Rows and labels are merged by time. Default: all rows come first.",
            _LABELS,
            metavar="COLUMN",
        ),
    ] = None
    keep: Annotated[
        int, option(f"The maximum number of waiting rows. Then the oldest expire (default {KEEP}).", _LABELS, min=1)
    ] = KEEP
    wait: Annotated[
        float | None, option("How long a row may wait, in seconds of --time (default: no limit).", _LABELS, min=0.0)
    ] = None
    waiting: Annotated[
        Path | None,
        option("Save waiting rows in this file. A later run can continue with it.", _LABELS, metavar="FILE"),
    ] = None

    @property
    def used(self) -> bool:
        return self.label_file is not None

    def check(self, specified: Any, data: list[str]) -> None:
        """Raise if options cannot be used together."""
        names = {"row_id": "--id", "time": "--time", "keep": "--keep", "wait": "--wait", "waiting": "--waiting"}
        if not self.used:
            for name, shown in names.items():
                if name in specified:
                    raise InvalidParameterError(f"{shown} can only be used with --labels FILE")
            return
        if self.row_id is None:
            raise InvalidParameterError("--labels needs --id COLUMN, which matches labels to rows")
        for name, shown in (
            ("engine", "--engine"), ("mode", "--mode"), ("passes", "--passes"), ("cache", "--cache"),
            ("resume", "--resume"), ("checkpoint", "--checkpoint"), ("checkpoint_every", "--checkpoint-every"),
            ("checkpoint_seconds", "--checkpoint-seconds"),
        ):  # fmt: skip
            if name in specified:
                raise InvalidParameterError(
                    f"{shown} cannot be used with --labels. Pass --waiting FILE to save the rows that still wait"
                )
        if self.wait is not None and self.time is None:
            raise InvalidParameterError("--wait needs --time COLUMN, the column that measures time")
        if self.time is not None and "-" in (*data, self.label_file):
            raise InvalidParameterError("--time needs files, because rows and times are read separately. Got a pipe")

    def joined(self, data: list[str], reading: Reading) -> "LateLabelSource":
        from thinstream.training.delayed_labels import LateLabelSource

        assert self.label_file is not None
        columns = self.row_id, self.time
        return LateLabelSource(data, reading, self.label_file, *columns, self.keep, self.wait, self.waiting)

    def look_first(self, data: list[str], reading: Reading, *, quiet: bool) -> Reading:
        """Return the options with the inferred columns of the rows and the classes of the labels."""
        from thinstream.cli.io import look_first

        source = self.joined(data, reading)
        rows = look_first(data, source.row_options, quiet=quiet)
        labels = look_first([source.label_file], source.label_options, quiet=quiet)
        columns = {name: getattr(rows, name) for name in ("header", "numeric", "dates", "text", "inferred")}
        return replace(reading, classes=labels.classes, **columns)


def counts_of(stream: "JoinedStream") -> dict[str, int]:
    """Return how many rows and labels were predicted, learned, expired and so on."""
    return {**stream.waiting.counts, "waiting": len(stream.waiting)}


def describe(stream: "JoinedStream") -> str:
    """Return a line with the counts."""
    counts = counts_of(stream)
    parts = [f"{counts['learned']:,} learned"]
    parts += [f"{counts[name]:,} {name}" for name in ("unknown", "expired", "repeated") if counts[name]]
    waiting = f"{counts['waiting']:,} of {counts['predicted']:,} rows still wait for their label"
    return f"{'labels':<18} {', '.join(parts)}; {waiting}"


_WHY = {
    "unknown": "no row has these ids",
    "expired": "their rows waited too long, or more than --keep rows came after them",
    "repeated": "these ids already had a label",
}


def remarks(stream: "JoinedStream") -> list[str]:
    """Return warnings about labels without a row."""
    warnings = []
    for name, why in _WHY.items():
        count, ids = stream.waiting.counts[name], stream.unmatched.get(name, [])
        if count:
            more = " …" if count > len(ids) else ""
            warnings.append(f"thinstream: {count:,} labels are {name}, {why}: {', '.join(map(str, ids))}{more}")
    return warnings
