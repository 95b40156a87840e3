"""Functions called through their C entry: what goes in, what comes out, what they may do in between."""

import enum
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from tests.jit.bits import run_bits
from thinstream import jit
from thinstream.jit import INTERPRETED, Compiled
from thinstream.jit.cache import CodeFile

compiled_only = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled when jit is disabled")


class Pair(NamedTuple):
    first: float
    second: int


class Nested(NamedTuple):
    pair: Pair
    array: np.ndarray
    flag: bool


def summed(nested, more, scale, whole):
    total = nested.pair.first + nested.pair.second
    for i in range(nested.array.shape[0]):
        for j in range(nested.array.shape[1]):
            total += nested.array[i, j]
    return (total if nested.flag else -total), np.int64(more[0]) + whole, scale


ARRAYS = {
    "rows": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(24.0).reshape(4, 6)[::2, ::2],
    "float32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "unsigned": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "read-only": np.frombuffer(np.arange(6.0).tobytes()).reshape(2, 3),
    "mapped": np.arange(6.0).reshape(2, 3).view(np.memmap),
    "unaligned": np.frombuffer(b"x" + np.arange(6.0).tobytes(), np.uint8)[1:].view(np.float64).reshape(2, 3),
    "empty": np.empty((0, 3)),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("flag", [True, False])
def test_arguments_of_all_kinds(name, flag):
    """Arrays of any layout, records in records, Python's numbers and numpy's: as in plain Python."""
    function, array = Compiled(summed), ARRAYS[name]
    arguments = (Nested(Pair(0.5, -3), array, flag), (np.uint32(7), 2), np.float32(0.1), -(2**62))
    total, whole, scale = function(*arguments)
    expected = array.sum(dtype=np.float64) - 2.5
    assert (total, whole) == (expected if flag else -expected, 7 - 2**62)
    assert scale == float(np.float32(0.1))


def test_one_function_serves_arguments_of_changing_types():
    """Each set of types has code of its own; types change back and forth."""
    function = Compiled(summed)
    for _ in range(3):
        for array in ARRAYS.values():
            found = function(Nested(Pair(0.0, 0), array, True), (np.uint32(0), 0), np.float32(0), 0)[0]
            assert found == array.sum(dtype=np.float64)


class Up(NamedTuple):
    n: int

    def value(p):
        return p.n + 1


class Down(NamedTuple):
    n: int

    def value(p):
        return p.n - 1


def test_records_of_other_classes_are_other_types():
    """Two classes with the same fields are told apart, of which methods are found at compile time."""
    from thinstream.engine.hooks import calls

    @calls(lambda kind: kind.value)
    def value(p):
        pass

    function = Compiled(lambda p: value(p))
    assert [function(p) for p in (Up(1), Down(1), Up(5))] == [2, 0, 6]


def results(which, x):
    if which > 0:
        return x > 1, x, np.uint64(2**63), np.float32(0.5), np.int8(-1)
    return x > 2, x, np.uint64(0), np.float32(-0.5), np.int8(1)


def test_results():
    """Bools, floats, and whole numbers of either sign come back as Python's own."""
    found = Compiled(results)(1, 1.5)
    assert found == (True, 1.5, 2**63, 0.5, -1)
    if not INTERPRETED:
        assert [type(part) for part in found] == [bool, float, int, float, int]
    assert Compiled(results)(0, 1.5) == (False, 1.5, 0, -0.5, 1)


def fill(out):
    out[:] = 7.0


def test_no_result():
    """A function may return nothing."""
    out = np.zeros(3)
    assert Compiled(fill)(out) is None
    assert out.tolist() == [7.0] * 3


def scratch(n):
    total = 0.0
    for i in range(n):
        part = np.full(i % 50, 1.0)
        for k in range(len(part)):
            total += part[k]
    return total


def test_arrays_of_its_own_are_freed():
    """Memory a function takes for itself it gives back: a million arrays leave nothing behind."""
    import resource

    function, n = Compiled(scratch), 1000 if INTERPRETED else 1_000_000
    function(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert function(n) == n // 50 * 1225.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2000


def fails(n):
    if n == 1:
        raise ValueError("n must not be 1")
    return len(np.empty(n))


def test_errors_come_through():
    """What a function raises, and memory that is not there."""
    function = Compiled(fails)
    assert function(3) == 3
    with pytest.raises(ValueError, match="n must not be 1"):
        function(1)
    with pytest.raises(MemoryError):
        function(2**55)
    with pytest.raises(ValueError, match="negative dimensions"):
        function(-1)


@compiled_only
def test_numbers_too_large_are_refused():
    """Whole numbers are of 64 bits."""
    function = Compiled(fails)
    function(3)
    with pytest.raises(OverflowError):
        function(2**63)


def spin(flags, stop, turns):
    while flags[stop] == 0:
        flags[turns] += 1


@compiled_only
def test_the_gil_is_released():
    """Other threads run while compiled code does."""
    function, flags = Compiled(spin), np.zeros(2, np.int64)
    function(np.ones(2, np.int64), 0, 1)
    thread = threading.Thread(target=function, args=(flags, 0, 1), daemon=True)
    thread.start()
    while flags[1] == 0:
        time.sleep(0.001)
    flags[0] = 1
    thread.join(10)
    assert not thread.is_alive()


@compiled_only
def test_threads_that_meet_new_types_compile_once():
    """The first compiles, the others wait for it."""
    function, before, found = Compiled(summed), len(jit.specialisations), []
    arguments = (Nested(Pair(0.5, -3), ARRAYS["rows"], True), (np.uint32(7), 2), np.float32(0.1), 5)
    threads = [threading.Thread(target=lambda: found.append(function(*arguments))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 8
    assert len(jit.specialisations) == before + 1
    assert len(function._entries) == 1


@compiled_only
def test_compilations_are_watched_inside_the_block_only(monkeypatch):
    monkeypatch.setattr(CodeFile, "find", lambda self: None)
    monkeypatch.setattr(CodeFile, "write", lambda self, folder, code: None)
    events = []

    @contextmanager
    def watch():
        events.append("begin")
        yield
        events.append("end")

    functions = [Compiled(double) for _ in range(2)]
    with jit.watch_compiling(watch()):
        assert functions[0](2.0) == 4.0
        assert functions[0](3.0) == 6.0
    assert events == ["begin", "end"]
    assert functions[1](2.0) == 4.0
    assert events == ["begin", "end"]


def double(number):
    return number * 2.0


class Colour(enum.IntEnum):
    RED = 1


@compiled_only
@pytest.mark.parametrize("value", ["text", None, [1.0], Colour.RED, Fraction(1, 2)])
def test_arguments_of_other_types_are_refused(value):
    """Nothing is read from memory that is not laid out as a number of Python's or numpy's, or as an array."""
    with pytest.raises(TypeError, match="compiled functions take arrays, numbers and tuples of them, got"):
        Compiled(fails)(value)


@compiled_only
def test_what_only_numba_can_run_is_refused():
    """Code that would need numba's runtime says so when it is compiled."""

    def makes_a_list(n):
        return len([i for i in range(n)])  # noqa: C416 (a list is the point)

    with pytest.raises(NotImplementedError, match="of numba"):
        Compiled(makes_a_list)(3)
    with pytest.raises(TypeError, match="compiled functions return None, numbers or tuples of numbers, not array"):
        Compiled(lambda x: x)(np.zeros(2))


@pytest.mark.parametrize("names", [("FSOL", "SSOL", "AROW"), pytest.param((), marks=pytest.mark.slow)])
def test_compiled_and_interpreted_give_the_same_bits(names):
    """In float64 compiled code rounds as Python does: no reassociation, no fused multiply-add."""
    answers = [run_bits("two", *names)[0], run_bits("two", *names, NUMBA_DISABLE_JIT="1")[0]]
    assert answers[0] == answers[1]


def test_import_is_lazy():
    """Importing the package, or asking for its version, imports neither numba nor scikit-learn."""
    program = "import sys, thinstream; print({'numba', 'sklearn'} & set(sys.modules), thinstream.__version__)"
    answered = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answered.stdout.startswith("set()")


def test_learners_do_without_scikit_learn():
    """The layer below the estimators never imports scikit-learn."""
    program = "import sys; from thinstream.lanes.learner import Learner; Learner('ssol', n_features=3); "
    program += "print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "False"
