"""Runs by features that lose workers, end early or find damage: they go on with the same bits, or say why not."""

import os
import socket
import time
from dataclasses import replace

import pytest

from tests.distributed.by_features.test_features import Lines, model, serial
from tests.distributed.by_features.test_slices import close
from tests.distributed.gang import Threads
from tests.distributed.sources import ROWS, Cut, Deadly, Everything, X, Y, rows
from thinstream.distributed.by_features.driver import learn_features
from thinstream.distributed.by_features.slice_files import MANIFEST, Manifest, clear, gather
from thinstream.distributed.by_features.worker import _remembered
from thinstream.distributed.engines.local import LocalLauncher
from thinstream.errors import InvalidInputError, InvalidParameterError, ModelFileError, PeerLostError, WorkerLostError
from thinstream.streams.stream import START


def losing(*numbers, error=WorkerLostError):
    def fate(number, tasks):
        if number in numbers:
            raise error("worker 1 died")

    return fate


@pytest.mark.parametrize("error", [WorkerLostError, PeerLostError])
def test_a_lost_worker_sends_all_back_to_the_last_checkpoint(tmp_path, error):
    launcher = Threads(2, losing(1, 3, 4, error=error))
    state = learn_features(launcher, Everything(), model(), checkpoint=tmp_path, segment=40)
    assert launcher.gangs == 6
    close(state.model.learner, serial(model())[0])


def test_without_a_folder_it_starts_again():
    launcher = Threads(2, losing(3))
    state = learn_features(launcher, Everything(), model(), passes=2, segment=90)
    assert launcher.gangs == 6  # 90, 180, lost, 90, 180, 200
    close(state.model.learner, serial(model(), 2)[0])
    assert state.progress.rows == 2 * ROWS


def test_a_process_that_has_forgotten_its_slice_is_a_loss():
    def forget(number, tasks):
        if number == 2:
            _remembered.pop((tasks[1].job, 1, 1))

    launcher = Threads(2, forget)
    state = learn_features(launcher, Everything(), model(), segment=60)
    assert launcher.gangs == 4
    close(state.model.learner, serial(model())[0])


def test_engines_that_forget_run_in_one_segment():
    launcher = Threads(2)
    launcher.remembers = False
    learn_features(launcher, Everything(), model(), segment=10)
    assert launcher.gangs == 1


def test_nothing_is_remembered_in_the_end(tmp_path):
    learn_features(Threads(2), Everything(), model(), segment=30)
    assert not _remembered
    learn_features(Threads(2), Everything(), model(), segment=30, checkpoint=tmp_path)
    assert not _remembered


def test_too_many_losses_are_an_error():
    launcher = Threads(2, losing(*range(99)))
    with pytest.raises(WorkerLostError, match="worker 1 died") as caught:
        learn_features(launcher, Everything(), model())
    assert caught.value.__notes__ == ["4 attempts failed, the last from row 0 on"]


def test_resumed_it_ends_with_the_same_bits(tmp_path):
    whole = learn_features(Threads(2), Everything(), model(), passes=2, checkpoint=tmp_path / "one", segment=30)
    folder = tmp_path / "two"
    with pytest.raises(KeyboardInterrupt):
        learn_features(
            Threads(2, losing(4, error=KeyboardInterrupt)),
            Everything(),
            model(),
            passes=2,
            checkpoint=folder,
            segment=30,
        )
    found = Manifest.read(folder)
    assert found.place.rows == 90
    launcher = Threads(2)
    state = learn_features(
        launcher, Everything(), model(), passes=2, checkpoint=folder, segment=30, resume=True, watch=Lines()
    )
    assert launcher.gangs == 4
    for one, other in zip(state.model.learner.memory, whole.model.learner.memory, strict=True):
        assert one.tobytes() == other.tobytes()
    for name in ("counts", "totals", "bins"):
        assert state.progress.arrays()[name].tobytes() == whole.progress.arrays()[name].tobytes()
    again = Threads(2)  # it is over: nothing is learned
    state = learn_features(again, Everything(), model(), passes=2, checkpoint=folder, segment=30, resume=True)
    assert again.gangs == 0
    assert state.model.learner.t == 2 * ROWS


def test_slices_of_an_unfinished_segment_count_for_nothing(tmp_path):
    """A worker dies after others have written: the manifest still tells of the segment before."""

    def fate(number, tasks):
        if number == 2:
            (tmp_path / f"{tasks[0].job}-2-0.slice").write_bytes(b"half")
            raise WorkerLostError("worker 1 died")

    state = learn_features(Threads(2, fate), Everything(), model(), checkpoint=tmp_path, segment=40)
    close(state.model.learner, serial(model())[0])


@pytest.mark.parametrize(
    ("workers", "changed", "message"),
    [
        (3, {}, "the run differs in workers, it was 2, is 3"),
        (2, {"batch": 2}, "the run differs in batch, it was 1, is 2"),
        (2, {"passes": 2}, "the run differs in passes, it was 1, is 2"),
    ],
)
def test_another_run_is_not_resumed(tmp_path, workers, changed, message):
    learn_features(Threads(2), Everything(), model(), checkpoint=tmp_path)
    with pytest.raises(InvalidInputError, match=message):
        learn_features(Threads(workers), Everything(), model(), checkpoint=tmp_path, resume=True, **changed)
    with pytest.raises(InvalidInputError, match=r"the model differs in eta, it was 1\.0, is 0\.5"):
        learn_features(Threads(2), Everything(), model(eta=0.5), checkpoint=tmp_path, resume=True)


def test_without_resume_an_old_folder_is_used_anew(tmp_path):
    learn_features(Threads(3), Everything(), model(eta=0.25), checkpoint=tmp_path)
    learn_features(Threads(2), Everything(), model(), checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    close(gather(tmp_path).learner, serial(model())[0])


def test_files_of_others_stay(tmp_path):
    """Whatever they end with; what is left of a run that was killed goes."""
    mine = [tmp_path / name for name in ("tomato.slice", "0-1-2.slice", "cafe-0-1.slice", "deadbeef-1-0.slice.bak")]
    left = tmp_path / "deadbeef-3-1.slice"
    for path in (*mine, left):
        path.write_text("kept")
    learn_features(Threads(2), Everything(), model(), checkpoint=tmp_path, segment=60)
    assert not left.exists()
    clear(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(mine)
    assert [path.read_text() for path in mine] == ["kept"] * 4


def test_damage_is_noticed(tmp_path):
    with pytest.raises(ModelFileError, match="there is no manifest"):
        gather(tmp_path)
    learn_features(Threads(2), Everything(), model(), checkpoint=tmp_path)
    part = next(iter(tmp_path.glob("*-1.slice")))
    kept = part.read_bytes()
    part.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(ModelFileError, match=r"-1\.slice: is damaged"):
        gather(tmp_path)
    part.unlink()
    with pytest.raises(ModelFileError, match="there is no such file"):
        gather(tmp_path)
    raw = (tmp_path / MANIFEST).read_bytes()
    (tmp_path / MANIFEST).write_bytes(raw.replace(b'\\"workers\\":2', b'\\"workers\\":1'))
    with pytest.raises(ModelFileError, match=r"manifest\.ts: is damaged"):
        gather(tmp_path)


def test_workers_that_read_different_streams_are_an_error():
    class Odd(Threads):
        def run_together(self, tasks):
            return super().run_together([tasks[0], replace(tasks[1], plan=replace(tasks[1].plan, shard=Shorter()))])

    with pytest.raises(InvalidInputError, match=r"ranks must call the same operations .* at operation 91"):
        learn_features(Odd(2), Everything(), model(), timeout=5.0)


class Shorter:
    """Ninety rows of a hundred."""

    def open(self):
        stream = Cut((90,))
        every = stream.batches
        stream.batches = lambda start=START: list(every(start))[:1]
        return stream


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch must be a whole number > 0, got 0"),
        ({"passes": True}, "passes must be a whole number > 0, got True"),
        ({"segment": 1.5}, r"segment must be a whole number > 0, got 1\.5"),
        ({"assemble": False}, "checkpoint must name one, got None"),
    ],
)
def test_what_cannot_be_asked_for(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        learn_features(Threads(2), Everything(), model(), **options)


# Real processes -------------------------------------------------------------------------------------------------------


class Counted(LocalLauncher):
    """Notes the processes of each gang."""

    def __init__(self, workers):
        super().__init__(workers)
        self.gangs = []

    def run_together(self, tasks):
        try:
            return super().run_together(tasks)
        finally:
            self.gangs.append(self.pids())


@pytest.fixture
def launcher():
    found = Counted(2)
    yield found
    found.close()


def test_a_killed_process_costs_no_more_than_a_segment(tmp_path, launcher):
    source = Deadly(tuple(range(0, ROWS, 10)), marker=tmp_path / "struck")
    state = learn_features(launcher, source, model(), checkpoint=tmp_path / "slices", segment=60, timeout=20.0)
    assert source.marker.exists()
    close(state.model.learner, serial(model())[0])
    before, lost, after = launcher.gangs  # 60 rows; fewer than 40; these 40
    assert len({os.getpid(), *before}) == 3
    assert lost.count(None) == 1
    assert len(set(before) | set(after)) == 3


def test_without_a_folder_a_killed_process_costs_all(tmp_path, launcher):
    begun = model()
    begun.learner.learn(rows(X[:30], Y[:30]))
    source = Deadly(tuple(range(0, ROWS, 10)), marker=tmp_path / "struck")
    state = learn_features(launcher, source, begun, timeout=20.0)
    assert len(launcher.gangs) == 2
    close(state.model.learner, serial(begun)[0])
    with pytest.raises(InvalidInputError, match="X has 20 features, but the model has 3"):  # raised in a worker
        learn_features(launcher, Everything(), model(n_features=3))


_callers = []


class Visited(Everything):
    """In each worker silent callers hang on to every socket that listens, from the first moment on."""

    def open(self):
        _create = socket.create_server

        def create_server(*arguments, **options):
            server = _create(*arguments, **options)
            _callers.extend(socket.create_connection(server.getsockname()) for _ in range(3))
            return server

        socket.create_server = create_server
        return super().open()


def test_silent_callers_hold_nobody_up(launcher):
    start = time.monotonic()
    state = learn_features(launcher, Visited(), model(), timeout=20.0)
    assert time.monotonic() - start < 15
    assert len(launcher.gangs) == 1
    close(state.model.learner, serial(model())[0])
