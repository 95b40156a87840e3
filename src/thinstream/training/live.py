"""A run over the messages of a broker, until a signal or a limit ends it.

A checkpoint has the model and the position in the source. Messages are acknowledged to the broker afterwards. So a run
that was killed resumes exactly at its last checkpoint.
"""

from dataclasses import dataclass, replace
from typing import Any

from thinstream.batch import Position
from thinstream.data.brokers import Following, shown
from thinstream.data.brokers.stream import MessageStream, open_source
from thinstream.data.options import Options
from thinstream.data.stream import START
from thinstream.errors import NumericalError, SourceError
from thinstream.models.model import Model
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.job import OutputFiles, Source
from thinstream.training.run import Interrupted, Run

#: Seconds between two checkpoints, by default.
SECONDS = 60.0


class LiveRun(Run):
    """A run that follows one source.

    After SIGTERM and SIGINT there is also a model, and the checkpoint stays, so that a later run can resume.
    """

    stream: MessageStream

    def __init__(self, stream: MessageStream, model: Model, **options: Any) -> None:
        super().__init__(stream, model, **options)
        self.stopped: Interrupted | None = None  # by a signal
        self._trouble: str | None = None
        self._gap = ""  # the last one that was reported
        self._kept: Position | None = None  # by the last checkpoint

    def run(self) -> Model:
        """Learn until the source ends or a signal arrives."""
        if self.checkpoints is not None and self.state.position == START:
            super()._checkpoint()  # the run returns to it if a row cannot be learned
        try:
            while True:
                try:
                    return super().run()
                except NumericalError as error:
                    self._leave_out(error)
        except Interrupted as stopped:
            self.stopped = stopped
            return self._finished()
        except SourceError:  # save the progress, because the broker may soon remove these messages
            if self.checkpoints is not None:
                self._checkpoint()
            raise
        finally:
            self.stream.close()

    def _leave_out(self, error: NumericalError) -> None:
        """Learn all messages since the checkpoint again, without the one that cannot be learned."""
        if self.checkpoints is None or error.row < 0:
            raise error
        self.stream.refuse(error.row, str(error))
        self.resume()
        self._since = 0

    def clear(self) -> None:
        """Keep the checkpoint, which has the position for a later run."""

    def _end_pass(self) -> None:
        if self.checkpoints is not None:
            self._checkpoint()
        self._most_skipped = self.skipped
        self.state = self.state._replace(passes=self.state.passes + 1)

    def _position_after(self, rows: int) -> Position:
        position = self.state.position
        return self.stream.at_row(position.row + position.skip + rows)

    def _checkpoint(self) -> None:
        """Write a checkpoint if there are new messages, and acknowledge them to the broker."""
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
            restored = f"{self.stream.address}: connection restored"
            self.watch.on_message(restored if self._trouble is None else f"{self._trouble}; trying again")
        if self.stream.status.gap != self._gap:
            self._gap = self.stream.status.gap
            self.watch.on_message(f"{self._gap}; continuing ({self.stream.lost:,} messages are missing so far)")
        super()._learn(batch, asked)


@dataclass(frozen=True)
class BrokerSource(Source):
    """Messages of a broker.

    Parameters
    ----------
    addresses : list of str
    options : Options
        How messages are read.
    following : Following
        When to stop, and where to write invalid messages.

    """

    addresses: list[str]
    options: Options
    following: Following

    @property
    def name(self) -> str:
        """The addresses, without passwords."""
        return ", ".join(map(shown, self.addresses))

    def device(self, device: str) -> str:
        """Return the CPU unless a GPU is requested, because batches of messages are small."""
        return "cpu" if device == "auto" else device

    def open(self, model: Model) -> MessageStream:
        """Connect to the broker. Rows with more features than the model allows are invalid."""
        stream = open_source(self.addresses, replace(self.options, dtype=model.learner.dtype.name), self.following)
        return stream if model.learner.grow else replace(stream, widest=model.learner.n_features)

    def checkpoints(self, outputs: OutputFiles, model: Model) -> Checkpoints | None:
        """Return the checkpoints, written each minute unless the outputs specify when."""
        if outputs.seconds is None and outputs.every is None:
            outputs = replace(outputs, seconds=SECONDS)
        return super().checkpoints(outputs, model)

    def run(self, stream: MessageStream, model: Model, **options: Any) -> LiveRun:
        """Create a run without an end."""
        return LiveRun(stream, model, **options)
