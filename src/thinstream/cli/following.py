"""``--live`` and ``--report`` of a run: the dashboard's page, while it goes and after it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from thinstream.cli.render import say
from thinstream.errors import InvalidParameterError

if TYPE_CHECKING:
    from thinstream.cli.commands.train import Training
    from thinstream.dashboard.following import Following
    from thinstream.evaluate.observer import Observer
    from thinstream.learners.protocol import AnyLearner


def follow(training: "Training", watch: "Observer", learner: "AnyLearner", data: Sequence[str]) -> "Following | None":
    """What follows the run for the page, where that is asked for."""
    if training.live_port and not training.live:
        raise InvalidParameterError("--live-port is for --live")
    if not (training.live or training.report):
        return None
    if learner.reads != "once":
        name = learner.algorithm.name
        raise InvalidParameterError(f"{name} holds its rows: it has nothing to show for --live and --report meanwhile")
    if training.report is not None and not training.report.resolve().parent.is_dir():
        raise InvalidParameterError(f"--report {training.report}: there is no folder {training.report.parent}")
    from thinstream.dashboard.following import Following

    return Following(watch, training.model.stem if training.model else ", ".join(data))


@contextmanager
def shown_live(training: "Training", followed: "Following | None", run: Any, data: Sequence[str]) -> Iterator[None]:
    """The page is there while the block runs, and kept after it, however that ended."""
    if followed is None:
        yield
        return
    from thinstream.dashboard.live import LivePage

    followed.run = run
    page = LivePage(followed, training.live_port) if training.live else None
    if page is not None:
        say(f"live at {page.address}")
    try:
        yield
    finally:
        followed.close()
        if page is not None:
            page.close()
        if training.report is not None:
            name = run.state.model.learner.algorithm.name
            followed.write_report(training.report, f"{name} on {', '.join(data)}")
