"""Settings of the whole suite, and what it reports at its end."""

import gc
import os

from hypothesis import settings

settings.register_profile("fast", max_examples=60, deadline=None, derandomize=True)
settings.register_profile("tenfold", max_examples=1000, deadline=None)
settings.register_profile("slow", max_examples=2000, deadline=None)
settings.register_profile("interpreted", max_examples=20, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("THINSTREAM_HYPOTHESIS", "fast"))

_by_worker = {}


def pytest_collection_finish():
    """What is imported stays: no need to look through it again whenever compiling has made many objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _specialisations():
    from thinstream import jit

    return sorted({f"{name}{signature}" for name, signature, _ in jit.specialisations})


def pytest_sessionfinish(session):
    """A worker hands over what it has compiled."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["specialisations"] = _specialisations()


def pytest_testnodedown(node):
    """The controller takes it."""
    _by_worker[node.gateway.id] = getattr(node, "workeroutput", {}).get("specialisations", [])


def pytest_terminal_summary(terminalreporter):
    """How many specialisations were compiled, and how many checks skipped or excused."""
    count = len(set().union(*_by_worker.values()) if _by_worker else _specialisations())
    skipped, excused = (len(terminalreporter.stats.get(kind, [])) for kind in ("skipped", "xfailed"))
    terminalreporter.write_line(f"compiled specialisations: {count}; skipped: {skipped}; excused checks: {excused}")
