"""A run over a source without an end: a broker's messages, followed until a signal comes or the source is told to end.

The checkpoint has the model and the place in the source, written in one step; the broker hears of it afterwards. So a
run that was killed goes on exactly where its last checkpoint is, whatever it had read, learned or acknowledged since.
"""

from typing import Any

from thinstream.batch import Position
from thinstream.errors import NumericalError, SourceError
from thinstream.models.model import Model
from thinstream.streams.brokers.stream import MessageStream
from thinstream.streams.stream import START
from thinstream.training.run import Interrupted, Run

#: Seconds between two checkpoints, unless others are asked for.
SECONDS = 60.0


class LiveRun(Run):
    """One model following one source.

    It never comes to an end, it stops: on SIGTERM and SIGINT, too, there is a model, and the checkpoint stays, from
    which a later run goes on.
    """

    stream: MessageStream

    def __init__(self, stream: MessageStream, model: Model, **options: Any) -> None:
        super().__init__(stream, model, **options)
        self.stopped: Interrupted | None = None  # by a signal
        self._trouble: str | None = None
        self._gap = ""  # the last one that was reported
        self._kept: Position | None = None  # by the last checkpoint

    def run(self) -> Model:
        """Learns until the source is told to end, or a signal comes."""
        if self.checkpoints is not None and self.state.position == START:
            super()._checkpoint()  # to come back to
        try:
            while True:
                try:
                    return super().run()
                except NumericalError as error:
                    self._leave_out(error)
        except Interrupted as stopped:
            self.stopped = stopped
            return self._finished()
        except SourceError:  # all that was learned stays: the broker may not keep these messages for long
            if self.checkpoints is not None:
                self._checkpoint()
            raise
        finally:
            self.stream.close()

    def _leave_out(self, error: NumericalError) -> None:
        """A row cannot be learned: all since the checkpoint is learned again without its message."""
        if self.checkpoints is None or error.row < 0:
            raise error
        self.stream.refuse(error.row, str(error))
        self.resume()
        self._since = 0

    def clear(self) -> None:
        """The checkpoint stays: it has the place where a later run goes on."""

    def _end_pass(self) -> None:
        if self.checkpoints is not None:
            self._checkpoint()
        self._most_skipped = self.skipped
        self.state = self.state._replace(passes=self.state.passes + 1)

    def _position_after(self, rows: int) -> Position:
        position = self.state.position
        return self.stream.at_row(position.row + position.skip + rows)

    def _checkpoint(self) -> None:
        """A checkpoint, unless nothing has come since the last; then the broker is told."""
        assert self.checkpoints is not None
        if self.state.position == self._kept:
            self.checkpoints.wrote()
        else:
            super()._checkpoint()
            self._kept = self.state.position
        self.stream.kept(self.state.position)

    def _learn(self, batch: Any, asked: Any) -> None:
        if self.stream.trouble != self._trouble:
            self._trouble = self.stream.trouble
            again = f"{self.stream.address} is there again"
            self.watch.said(again if self._trouble is None else f"{self._trouble}; trying again")
        if self.stream.known.gap != self._gap:
            self._gap = self.stream.known.gap
            self.watch.said(f"{self._gap}; continuing ({self.stream.lost:,} messages are missing so far)")
        super()._learn(batch, asked)
