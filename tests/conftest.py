"""Settings of the whole suite, and what it reports at its end."""

import gc
import os

from hypothesis import settings

settings.register_profile("fast", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("slow", max_examples=2000, deadline=None)
settings.register_profile("interpreted", max_examples=30, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("THINSTREAM_HYPOTHESIS", "fast"))

#: Tests that compile the loops of all algorithms, in float64 and float32; and those that take them all.
COMPILING = ("tests/rules/", "tests/test_behaviour.py::test_chunks_in_float32")
OF_LOOPS = (
    *(f"tests/test_{name}.py" for name in ("behaviour", "estimators", "golden", "identities", "merging", "models")),
    "tests/test_jit.py::test_compiled_and_interpreted_give_the_same_bits",
    "tests/test_theorems.py",
)

_by_worker = {}


def pytest_collection_modifyitems(items):
    """One worker compiles the loops, for only one at a time can; the other begins with tests that need few of them.

    With ``--dist worksteal`` each worker is given a stretch of this order, and takes from others when it is done.
    """
    first = [item for item in items if item.nodeid.startswith(COMPILING)]
    chosen = set(first)
    loops = [item for item in items if item.nodeid.startswith(OF_LOOPS) and item not in chosen]
    chosen.update(loops)
    others = [item for item in items if item not in chosen]
    until = max(0, len(items) // 2 - len(first))
    items[:] = [*first, *loops[:until], *others, *loops[until:]]


def pytest_collection_finish():
    """What is imported stays: no need to look through it again whenever compiling has made many objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _specialisations():
    from thinstream import jit

    return sorted({f"{name}{signature}" for name, signature in jit.specialisations})


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
