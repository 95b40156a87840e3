"""Sources without an end: options of ``thinstream train`` for brokers' messages, and what goes over them."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from thinstream.cli.declared import option
from thinstream.cli.options import Reading
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.streams.brokers import ON_GAP, Following, is_address, shown

if TYPE_CHECKING:
    from thinstream.streams.brokers.stream import MessageStream

_PANEL = "Messages (redis://, nats://, kafka://)"
#: What does not go with a source that has no end, and why.
_NOT_FOR_SOURCES = {
    "cache": "a cache is kept beside a file",
    "passes": "messages are taken once",
    "engine": "one process follows them",
    "label_file": "rows that wait are no part of its checkpoints",
}


@dataclass(frozen=True)
class Source:
    """How long messages are followed, and where those go that cannot be read."""

    rows: Annotated[
        int | None,
        option("Stop after so many rows in all, those before a --resume included (default: never).", _PANEL, min=1),
    ] = None
    idle_seconds: Annotated[
        float | None, option("Stop when no message has come for so long (default: never).", _PANEL, min=0.0)
    ] = None
    dead_letters: Annotated[
        str | None,
        option(
            "Where messages go that cannot be read, with a reason: a file of JSON Lines (default: MODEL.dead-letters), "
            "or stream:NAME, a stream (subject, topic) of the same broker.",
            _PANEL,
            metavar="FILE|stream:NAME",
        ),
    ] = None
    on_gap: Annotated[
        str,
        option(
            "If the broker has removed messages before they were read: stop with an error (default), or continue "
            "without them and report how many are missing.",
            _PANEL,
            metavar="stop|continue",
            values=lambda: ON_GAP,
        ),
    ] = "stop"

    def check(self, given: Any, data: list[str]) -> bool:
        """Whether rows are messages of a broker; raises where options do not go with that."""
        if not is_address(data):
            for each in fields(self):
                if each.name in given:
                    raise InvalidParameterError(
                        f"--{each.name.replace('_', '-')} is for messages of redis://, nats:// and kafka://, got "
                        f"{', '.join(data)}"
                    )
            return False
        for name, why in _NOT_FOR_SOURCES.items():
            if name in given:
                flag = "labels" if name == "label_file" else name
                raise InvalidParameterError(f"--{flag} is not for messages of a broker: {why}")
        self.following(None).check()
        return True

    def as_asked(self, data: list[str], reading: Reading) -> Reading:
        """The options with the format of the messages."""
        from thinstream.streams.brokers.address import only_address
        from thinstream.streams.brokers.opening import format_in

        return replace(reading, format=format_in(only_address(data), reading).name)

    def following(self, model: Path | None) -> Following:
        """The same, dead letters beside the model where nothing else is said."""
        letters = self.dead_letters or (f"{model}.dead-letters" if model is not None else None)
        return Following(self.rows, self.idle_seconds, letters, self.on_gap)

    def look_first(self, data: list[str], reading: Reading, *, quiet: bool) -> Reading:
        """The options with what is found by looking at the first messages, and says what that is."""
        from thinstream.cli.render import say
        from thinstream.streams.brokers.opening import look_at_source

        found = look_at_source(data, reading, Following(idle_seconds=self.idle_seconds))
        for told in () if quiet else found.told:
            say(told)
        return found.options

    def open(self, data: list[str], reading: Reading, learner: Any, model: Path | None) -> "MessageStream":
        """The stream of the messages; rows that are wider than the learner may get are none."""
        from thinstream.streams.brokers.opening import open_source

        stream = open_source(data, replace(reading, dtype=learner.dtype.name), self.following(model))
        return stream if learner.grow else replace(stream, widest=learner.n_features)


def as_before(reading: Reading, checkpoint: Path) -> Reading:
    """The options with what a run had found by looking that left this checkpoint: the first messages may be gone."""
    from thinstream.models.file import read
    from thinstream.streams.options import OPTIONS, as_learned, spelling

    assert reading.format is not None
    model = read(checkpoint)
    source = model.extra.get("run", {}).get("source", {})
    kept = {name: source[name] for name in OPTIONS if name in source and spelling(OPTIONS[name]).remembered}
    return as_learned(reading, reading.format, replace(model, reading=kept), str(checkpoint))


def shown_names(data: list[str]) -> str:
    """What messages call the data: never with a password."""
    return ", ".join(map(shown, data))


def require_learned(run: Any, names: str, source: Source, model: Path | None) -> None:
    """Raises where no message could be read, with what became of them."""
    position = run.state.position
    if not run.skipped or position.row + position.skip:
        return
    letters, reasons = source.following(model).dead_letters, run.stream.skipped.reasons
    where = "" if letters is None else f", they are in {letters}"
    why = f"; the first: {reasons[0]}" if reasons else ""
    raise InvalidInputError(
        f"{names}: none of {run.skipped:,} messages could be read as {run.stream.reading['format']} (--format says "
        f"what they are){where}{why}"
    )


def say_stopped(run: Any, checkpoint: Path | None) -> None:
    """Says what stopped a run, and how it goes on."""
    from thinstream.cli.render import say

    why = "stopped" if run.stopped is None else f"stopped by {run.stopped}"
    rows = run.state.position.row + run.state.position.skip
    how = "" if checkpoint is None else f"; {checkpoint} has the place: go on with --resume"
    say(f"thinstream: {why} after {rows:,} rows{how}")
