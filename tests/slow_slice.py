"""A slice of the slow tests with fresh random examples: ``make test-slice``, in CI after every change.

The slice is what `make test` leaves out or runs with the same examples every day: slow tests, those it runs
interpreted only, and property tests. The seed, by default the commit's hash, shuffles them and chooses the random
examples; they run until the time is over. So over many commits all of them run, and any run can be repeated:

    python -m tests.slow_slice --seed 5b0a212 --seconds 300

This module is also the pytest plugin behind that command (``-p tests.slow_slice``).
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Seconds after the slice's time in which tests that have begun may end.
GRACE = 60


def number(seed):
    """The seed of the random examples."""
    return int(hashlib.sha256(seed.encode()).hexdigest()[:8], 16)


def place(seed, name):
    """Where a test stands in the order of a seed."""
    return hashlib.sha256(f"{seed} {name}".encode()).digest()


def belongs(item):
    """Whether `make test` leaves a test out, or runs it with the same random examples every day."""
    if any(item.get_closest_marker(name) for name in ("services", "browser", "ray", "spark")):
        return False
    marked = item.get_closest_marker("slow") or item.get_closest_marker("interpreted")
    return bool(marked) or getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


class Slice:
    """The plugin; with xdist, in the workers and in the process that reports."""

    def __init__(self, config):
        self.seconds, self.seed = config.getoption("slice_seconds"), config.getoption("slice_seed")
        self.end = time.monotonic() + self.seconds
        self.of, self.ran, self.stopped, self.failed = 0, set(), set(), []

    def pytest_collection_modifyitems(self, config, items):
        """Keeps the slice's tests, in the order of the seed."""
        chosen = sorted((item for item in items if belongs(item)), key=lambda item: place(self.seed, item.nodeid))
        config.hook.pytest_deselected(items=[item for item in items if not belongs(item)])
        items[:] = chosen
        self.of = len(chosen)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        """The reporting process collects nothing itself."""
        self.of = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self):
        """Starts nothing once the time is over."""
        return True if time.monotonic() >= self.end else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self):
        """Ends a test that goes on after the time of grace."""
        if not hasattr(signal, "SIGALRM"):
            return (yield)
        before = signal.signal(signal.SIGALRM, self._stop)
        signal.setitimer(signal.ITIMER_REAL, max(self.end + GRACE - time.monotonic(), 0.001))
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _stop(self, *_):
        pytest.skip("the slice's time is over")

    def pytest_runtest_logreport(self, report):
        """Counts what ran."""
        if report.failed:
            self.failed.append(report.nodeid)
        if report.when == "call":
            over = report.skipped and "the slice's time is over" in str(report.longrepr)
            (self.stopped if over else self.ran).add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter):
        """What ran, and how each failure is repeated."""
        also = f", {len(self.stopped)} stopped unfinished" if self.stopped else ""
        write = terminalreporter.write_line
        write(f"slice {self.seed}: {len(self.ran)} of {self.of} tests ran in {self.seconds:g} s{also}")
        for name in dict.fromkeys(self.failed):
            write(f"to repeat: {repeat(self.seed, name)}")


def repeat(seed, name):
    """The command that runs one test with the examples of a seed."""
    return f"THINSTREAM_HYPOTHESIS=slow python -m pytest --hypothesis-seed={number(seed)} '{name}'"


def pytest_addoption(parser):
    """The two options."""
    group = parser.getgroup("slice", "a slice of the slow tests")
    group.addoption("--slice-seconds", type=float, default=300, help="start no test after this time")
    group.addoption("--slice-seed", default="0", help="chooses order and random examples")


def pytest_configure(config):
    """Registers the plugin."""
    config.pluginmanager.register(Slice(config), "slow-slice")


def head():
    """The hash of the commit that is checked out."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.slow_slice", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", help="any text; the commit's hash by default")
    parser.add_argument("--seconds", type=int, default=300, help="start no test after this time")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("tests", nargs="*", default=["tests"], help="files or folders; all by default")
    options = parser.parse_args(argv)
    seed = options.seed or head()
    print(
        f"a slice of the slow tests: python -m tests.slow_slice --seed {seed} --seconds {options.seconds}", flush=True
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.slow_slice", f"--slice-seed={seed}"]
    command += [f"--slice-seconds={options.seconds}", f"--hypothesis-seed={number(seed)}", *options.tests]
    command += ["-n", str(options.workers)] if options.workers > 1 else []
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "THINSTREAM_HYPOTHESIS": "slow"}).returncode


if __name__ == "__main__":
    raise SystemExit(main())
