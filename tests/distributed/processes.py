"""A launcher of one process per task, new ones for each gang: the least that `together` asks for."""

import multiprocessing
import pickle
from multiprocessing.connection import wait

from tests.distributed.gang import PATIENCE
from thinstream.errors import PeerLostError, WorkerLostError

EXCHANGES = 2


def _run(raw, pipe):
    def exchange(text):
        pipe.send(text)
        return pipe.recv()

    try:
        pipe.send(pickle.loads(raw)(exchange))
    except BaseException as error:
        pipe.send(error)


class Processes:
    remembers = False

    def __init__(self, workers):
        self.workers, self.gangs, self.pids = workers, 0, []

    def share(self, value):
        return Shared(value)

    def together(self, tasks):
        self.gangs += 1
        context = multiprocessing.get_context("spawn")
        ours, theirs = zip(*(context.Pipe() for _ in tasks))
        processes = [
            context.Process(target=_run, args=(pickle.dumps(task), pipe), daemon=True)
            for task, pipe in zip(tasks, theirs, strict=True)
        ]
        try:
            for process, pipe in zip(processes, theirs, strict=True):
                process.start()
                pipe.close()
            self.pids.append([process.pid for process in processes])
            for _ in range(EXCHANGES):
                texts = self._all(ours)
                for pipe in ours:
                    pipe.send(texts)
            return self._all(ours)
        finally:
            for process in processes:
                process.kill()
                process.join(PATIENCE)

    def _all(self, pipes):
        """What each process says; the end of one is known by the end of its pipe."""
        said, left = {}, set(pipes)
        while left:
            ready = wait(left, PATIENCE)
            assert ready, "the workers hang"
            for pipe in ready:
                left.remove(pipe)
                try:
                    said[pipe] = pipe.recv()
                except EOFError:
                    said[pipe] = WorkerLostError(f"worker {pipes.index(pipe)} died")
        errors = [each for each in said.values() if isinstance(each, BaseException)]
        for error in sorted(errors, key=lambda error: isinstance(error, PeerLostError)):
            raise error
        return [said[pipe] for pipe in pipes]

    def close(self):
        pass


class Shared:
    def __init__(self, value):
        self.value = value

    def __call__(self):
        return self.value
