"""The slice of the slow tests: what is in it, in which order, when it ends, and how a failure is repeated."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests import slow_slice

EXAMPLES = """
import time

import pytest
from hypothesis import Phase, given, settings, strategies as st

def test_daily():
    raise AssertionError("not for the slice")

@pytest.mark.slow
@pytest.mark.parametrize("k", range(6))
def test_slow(k):
    pass

@pytest.mark.interpreted
def test_interpreted():
    pass

@pytest.mark.ray
@given(st.integers())
def test_on_ray(n):
    raise AssertionError("not for the slice")

@settings(phases=[Phase.generate], database=None)  # shrunk examples are the same for all seeds
@given(st.integers())
def test_drawn(n):
    assert n < 1000
"""
LONG = """
import time

import pytest

@pytest.mark.slow
def test_long():
    time.sleep(30)
"""
INI = "[pytest]\nmarkers =\n    slow: -\n    interpreted: -\n    ray: -\n    spark: -\n"


def pytest_in(folder, *arguments, **environment):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(slow_slice.ROOT), *sys.path]), **environment}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)


def sliced(folder, *more):
    options = ["-v", "-p", "tests.slow_slice", "--slice-seed=a", f"--hypothesis-seed={slow_slice.number('a')}"]
    return pytest_in(folder, *options, *more)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "pytest.ini").write_text(INI)
    (folder / "test_it.py").write_text(EXAMPLES)
    return folder


@pytest.fixture(scope="module")
def whole(suite):
    """All of the slice, in one process."""
    return sliced(suite)


def names_in(done):
    return re.findall(r"^test_it\.py::(\S+) (?:PASSED|FAILED)", done.stdout, flags=re.M)


def test_slow_interpreted_and_property_tests_in_the_order_of_the_seed(whole):
    expected = [*(f"test_slow[{k}]" for k in range(6)), "test_interpreted", "test_drawn"]
    assert names_in(whole) == sorted(expected, key=lambda name: slow_slice.place("a", f"test_it.py::{name}"))


def test_a_failure_says_how_it_is_repeated(whole, suite):
    assert whole.returncode == 1
    assert "slice a: 8 of 8 tests ran in 300 s\n" in whole.stdout
    (command,) = re.findall(r"^to repeat: THINSTREAM_HYPOTHESIS=slow python -m pytest (.*)$", whole.stdout, flags=re.M)
    assert command == f"--hypothesis-seed={slow_slice.number('a')} 'test_it.py::test_drawn'"
    repeated = pytest_in(suite, *shlex.split(command), THINSTREAM_HYPOTHESIS="slow")
    assert re.findall(r"n=(\d{4,})", repeated.stdout) == re.findall(r"n=(\d{4,})", whole.stdout) != []


def test_nothing_starts_after_its_time(suite):
    done = sliced(suite, "--slice-seconds=0")
    assert done.returncode == 0
    assert names_in(done) == []
    assert "slice a: 0 of 8 tests ran in 0 s\n" in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="no alarm elsewhere")
def test_a_test_that_goes_on_is_stopped(tmp_path):
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_it.py").write_text(LONG)
    (tmp_path / "conftest.py").write_text("from tests import slow_slice\n\nslow_slice.GRACE = 0.2\n")
    done = sliced(tmp_path, "--slice-seconds=1")
    assert done.returncode == 0
    assert "slice a: 0 of 1 tests ran in 1 s, 1 stopped unfinished\n" in done.stdout


def test_two_workers_share_it(suite):
    done = sliced(suite, "-n", "2")
    assert done.returncode == 1
    assert "slice a: 8 of 8 tests ran in 300 s\n" in done.stdout
    assert done.stdout.count("to repeat: ") == 1


def test_the_commits_hash_is_the_seed(monkeypatch, capfd):
    """And it is printed."""
    monkeypatch.setattr(subprocess, "run", lambda command, **options: started.append((command, options["env"])) or done)
    monkeypatch.setattr(slow_slice, "head", lambda: "5b0a212")
    started, done = [], subprocess.CompletedProcess([], 0)
    assert slow_slice.main(["--seconds", "9", "--workers", "1"]) == 0
    ((command, environment),) = started
    assert {"--slice-seed=5b0a212", "--slice-seconds=9", f"--hypothesis-seed={slow_slice.number('5b0a212')}"} < {
        *command
    }
    assert environment["THINSTREAM_HYPOTHESIS"] == "slow"
    assert "python -m tests.slow_slice --seed 5b0a212 --seconds 9\n" in capfd.readouterr().out


def test_every_test_comes_first_for_some_seed():
    """So over many commits all of them run."""
    names = [f"tests/test_{k}.py" for k in range(20)]
    first = {min(names, key=lambda name: slow_slice.place(f"{seed}", name)) for seed in range(400)}
    assert first == set(names)
