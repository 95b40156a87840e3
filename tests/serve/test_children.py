"""Processes of a server that outlive the one that started them."""

import time

from tests.serve.conftest import made
from thinstream.locks import locked
from thinstream.serve.children import Child
from thinstream.serve.places import Places
from thinstream.serve.registering import register
from thinstream.serve.settings import Settings


def test_a_learning_process_that_nobody_waits_for_gives_way(tmp_path):
    """Started while another one still ends, and its server killed meanwhile: it does not begin to learn."""
    made(tmp_path / "m.ts", "ham", "spam")
    places = Places(tmp_path / "data")
    with places.held():
        names = register(places, [tmp_path / "m.ts"])
        with locked(places.learning):
            orphan = Child.learner(places, Settings(), names)
            orphan._process.stdin.close()
            time.sleep(1.0)
            assert orphan.code is None  # it waits
        assert orphan._process.wait(60) == 0
        assert not (tmp_path / "data" / "m" / "journal.sqlite").exists()
        learner = Child.learner(places, Settings(), names)
        until = time.monotonic() + 60
        while not learner.is_open(places.door) and time.monotonic() < until:
            time.sleep(0.02)
        learner.stop()
        assert (tmp_path / "data" / "m" / "journal.sqlite").exists()
        places.clear()
