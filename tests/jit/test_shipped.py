"""Code in a wheel: found by binary interface and processor, never written to, and used before anything is compiled."""

import json
import logging
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import SOURCE
from tests.jit.bits import run_bits
from thinstream.algorithms.registry import algorithms
from thinstream.engine import rows
from thinstream.errors import ThinstreamWarning
from thinstream.jit import INTERPRETED, Compiled, ahead, cache, compile_ahead
from thinstream.jit.ahead import ArraySample, Workers, rehearse

compiled_only = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled when jit is disabled")
ARGUMENTS = np.array([0, 2]), np.array([3.0, 4.0])


def divide():
    """Return a function of the package as a fresh process has it: without code."""
    return Compiled(rows._divide.function)


def request_for(function, *arguments):
    with rehearse(ignores_files=True) as rehearsal:
        function(*arguments)
    (request,) = rehearsal.requests.values()
    return request


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """One function, compiled by processes for each baseline."""
    folder = tmp_path_factory.mktemp("compiled")
    request = request_for(divide(), *ARGUMENTS)
    for baseline in cache.baselines(all_of_them=True):
        target = folder / cache.abi() / baseline
        target.mkdir(parents=True)
        workers = Workers({request.key: request}, 1, baseline, str(target))
        assert [done.function.title for done in workers.finished()] == ["rows.divide"]
        workers.close()
        assert not workers.errors
    return folder


@pytest.fixture
def package(tmp_path, monkeypatch, request):
    """A package with shipped code, and an empty cache."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SHIPPED", tmp_path / "compiled")
    if not INTERPRETED:
        shutil.copytree(request.getfixturevalue("shipped"), tmp_path / "compiled")
    forget = cache._usable_baselines.cache_clear
    forget()
    yield tmp_path / "compiled"
    forget()


@pytest.fixture
def no_compiler(monkeypatch):
    """A process that cannot compile."""

    def refuse(self, arguments, symbol):
        raise AssertionError("a function is compiled")

    monkeypatch.setattr(Compiled, "object_code", refuse)


def divided(function):
    values = ARGUMENTS[1].copy()
    function(ARGUMENTS[0], values)
    return values.tolist()


# The layout of objects.


def test_objects_are_laid_out_as_entries_read_them():
    assert cache.mismatches() == []


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("head", "a float"),
        ("items", "a tuple's items"),
        ("data", "the data of float32"),
        ("ndim", "the dimensions of int16"),
        ("shape", "the shape of float32"),
        ("strides", "the strides of float32"),
        ("dtype", "the dtype int16"),
        ("flags", "the flags of float32"),
        ("char", "the letter of float32"),
        ("byteorder", "the byte order of int16"),
    ],
)
def test_another_layout_is_noticed(field, name):
    offsets = cache.OFFSETS._replace(**{field: getattr(cache.OFFSETS, field) + 4})
    assert name in cache.mismatches(offsets)


@compiled_only
def test_numba_runs_functions_of_another_layout(package, monkeypatch):
    """Neither shipped nor cached code is used, and one warning explains it."""
    module = sys.modules["thinstream.jit.compiled"]
    monkeypatch.setattr(module, "mismatches", lambda: ["the shape of float32"])
    monkeypatch.setattr(module.Compiled, "_find", lambda self, kinds: pytest.fail("code is read from a file"))
    module.layout_is_known.cache_clear()
    try:
        function = divide()
        with pytest.warns(ThinstreamWarning, match="stores the shape of float32 in an unexpected place"):
            assert divided(function) == [0.6, 0.8]
        with pytest.raises(ZeroDivisionError, match="seven"):
            Compiled(fails)(7)
    finally:
        module.layout_is_known.cache_clear()


def fails(number):
    if number == 7:
        raise ZeroDivisionError("seven")
    return number


# Processors.


def test_a_baseline_needs_all_its_features(monkeypatch):
    from llvmlite import binding as llvm

    monkeypatch.setattr(llvm, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    v2 = dict.fromkeys(cache._V2, True)
    for features, expected in [
        ({}, ()),
        (v2, ("x86-64-v2",)),
        ({**dict.fromkeys(cache._V3, True), "fma": False}, ("x86-64-v2",)),
        (dict.fromkeys(cache._V3, True), ("x86-64-v3", "x86-64-v2")),
    ]:
        monkeypatch.setattr(llvm, "get_host_cpu_features", lambda features=features: features)
        assert cache.baselines.__wrapped__() == expected
    assert cache.baselines.__wrapped__(all_of_them=True) == ("x86-64-v3", "x86-64-v2")
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "riscv64-unknown-linux-gnu")
    assert cache.baselines.__wrapped__() == ()


# Files in the package.


@compiled_only
def test_shipped_code_is_used_and_never_written_to(package, no_compiler):
    files = sorted(path for path in package.rglob("*") if path.is_file())
    before = [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
    assert divided(divide()) == [0.6, 0.8]
    assert [(file.read_bytes(), file.stat().st_mtime_ns) for file in files] == before
    assert not cache.cache_folder().exists()
    for file in files:
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(AssertionError, match="a function is compiled"):  # damaged code is neither run nor deleted
        divided(divide())
    assert all(file.exists() for file in files)


@compiled_only
def test_the_fastest_code_that_the_processor_runs_is_used(package, no_compiler, monkeypatch):
    found, find = [], cache.CodeFile.find

    def watched(file):
        code = find(file)
        if code is not None:
            found.append(file._shipped.name)
        return code

    monkeypatch.setattr(cache.CodeFile, "find", watched)
    for usable in (cache.baselines(), cache.baselines()[-1:]):
        monkeypatch.setattr(cache, "_usable_baselines", lambda usable=usable: usable)
        assert divided(divide()) == [0.6, 0.8]
    assert found == [cache.baselines()[0], cache.baselines()[-1]]


@compiled_only
def test_code_for_this_processor_comes_first(package, no_compiler, monkeypatch):
    """Once `thinstream compile` or an earlier run has made it."""
    (file,) = (package / cache.abi() / cache.baselines()[0]).iterdir()
    code = file.read_bytes()[32:]
    native = divide().cached_file(request_for(divide(), *ARGUMENTS).kinds)
    with native.locked() as folder:
        native.write(folder, code)
    loaded = []
    monkeypatch.setitem(
        vars(sys.modules["thinstream.jit.compiled"]),
        "load",
        lambda code, symbol: loaded.append(symbol) or (lambda *_: None),
    )
    divide()(*ARGUMENTS)
    assert loaded == [native.symbol]


@compiled_only
def test_code_for_another_python_is_not_used_and_one_warning_says_so(package, monkeypatch):
    (package / cache.abi()).rename(package / "cpython-399-x86_64-linux-gnu-numpy2000000")
    monkeypatch.setattr(Compiled, "object_code", _fails)
    warning = pytest.warns(ThinstreamWarning, match=f"compiled code for cpython-399.*, but this is {cache.abi()}")
    with warning, pytest.raises(ValueError, match="compiles"):
        divided(divide())
    with pytest.raises(ValueError, match="compiles"):  # without another warning
        divided(divide())


def _fails(self, arguments, symbol):
    raise ValueError("compiles")


@compiled_only
def test_code_is_not_used_with_settings_that_change_it(package, monkeypatch):
    """Checked bounds, for example, are in no wheel."""
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    monkeypatch.setattr(Compiled, "object_code", _fails)
    with pytest.raises(ValueError, match="compiles"):
        divided(divide())


def test_keys_have_neither_the_version_of_numba_nor_the_patch_of_numpy(monkeypatch):
    from importlib import metadata

    def names():
        return [
            cache.cached_file("loop", "types", "sources").name,
            cache.shipped_file("loop", "types", "sources", "x86-64-v3").name,
        ]

    before = names()
    monkeypatch.setattr(metadata, "version", lambda name: "99.0")
    monkeypatch.setattr(np, "__version__", "2.99.9")
    assert names() == before
    monkeypatch.setattr(cache, "abi", lambda: "cpython-399")
    assert not set(names()) & set(before)
    monkeypatch.undo()
    assert cache.shipped_file("loop", "types", "sources", "x86-64-v2").name != before[1]
    assert cache.shipped_file("loop", "types", "others", "x86-64-v3").name != before[1]


# Rehearsals and worker processes.


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3),
        np.zeros((3, 4), np.float32),
        np.zeros((3, 4), np.int32, order="F"),
        np.zeros((3, 4))[:, ::2],
        np.zeros(9, np.uint8)[::3],
        np.zeros((2, 3, 4), np.uint64),
        np.zeros(17, np.uint8)[1:].view(np.int64),
        np.zeros(3, ">f8"),
    ],
)
@pytest.mark.parametrize("writeable", [True, False])
def test_a_sample_has_the_type_of_its_array(array, writeable):
    from thinstream.jit.compiled import kind_of, layout_of

    array = array.view()
    array.setflags(write=writeable)
    sample = ArraySample(array.dtype.str, array.ndim, layout_of(array))
    assert kind_of(sample.make()) == kind_of(array)


def test_a_rehearsal_records_calls_and_runs_them_as_python():
    with rehearse(ignores_files=True) as rehearsal:
        assert divided(divide()) == [0.6, 0.8]
        assert divided(divide()) == [0.6, 0.8]
    assert [request.function.title for request in rehearsal.requests.values()] == (
        [] if INTERPRETED else ["rows.divide"]
    )


@compiled_only
def test_results_of_a_rehearsal_have_the_types_of_compiled_code():
    function = Compiled(numbers, made_by=(numbers,))
    with rehearse(ignores_files=True):
        rehearsed = function(3)
    compiled = function(3)
    assert rehearsed == compiled == (3, 1.5, True)
    assert list(map(type, rehearsed)) == list(map(type, compiled))


def numbers(n):
    return np.int64(n), np.float64(n) / 2.0, np.bool_(n > 2)


@compiled_only
def test_workers_compile_what_a_rehearsal_records(tmp_path, monkeypatch):
    """The block's functions compile in parallel, then run without compiling anything here."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead, "n_cores", lambda: 2)
    functions = [divide() for _ in range(2)]
    into = Compiled(rows._divide_into.function)
    here = []
    real = Compiled.object_code
    monkeypatch.setattr(Compiled, "object_code", lambda self, *more: here.append(self.title) or real(self, *more))
    out = np.zeros(2)

    def program():
        divided(functions[1])
        into(*ARGUMENTS, out)

    with compile_ahead(program):
        assert divided(functions[0]) == [0.6, 0.8]
        into(*ARGUMENTS, out)
    assert out.tolist() == [0.6, 0.8]
    assert len(here) <= 2
    assert len(list(tmp_path.rglob("*.code"))) == 2


@compiled_only
def test_a_function_that_others_cannot_find_is_compiled_here(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead, "n_cores", lambda: 3)
    local = Compiled(lambda x: x * 2.0)
    other = Compiled(lambda x: x * 3.0)

    def program():
        local(1.0)
        other(1.0)

    with compile_ahead(program):
        assert (local(1.0), other(1.0)) == (2.0, 3.0)


@compiled_only
def test_an_error_of_a_rehearsal_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead, "n_cores", lambda: 2)
    with compile_ahead(lambda: 1 / 0):
        assert divided(divide()) == [0.6, 0.8]


@compiled_only
def test_python_logs_that_it_compiles(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead, "PATIENCE", 0.0)
    monkeypatch.setattr(ahead, "_is_announced", False)
    with caplog.at_level(logging.INFO, logger="thinstream.jit"):
        divided(divide())
    messages = sorted((record.levelname, record.getMessage()) for record in caplog.records)
    assert messages == [("INFO", "compiling rows.divide"), ("WARNING", f"thinstream: {ahead.MESSAGE}")]


@compiled_only
@pytest.mark.slow
@pytest.mark.parametrize("name", [algorithm.name for algorithm in algorithms("online")])
def test_shipped_cached_and_fresh_code_give_the_same_bits(name, tmp_path):
    """In both precisions, with two classes and with ten."""
    run_bits("record", tmp_path / "requests", name)
    requests = pickle.loads((tmp_path / "requests").read_bytes())
    empty = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_DISABLE_JIT": "0"}
    fresh, were_in_files = run_bits("run", name, **empty)
    assert were_in_files == [False]
    assert run_bits("run", name, **empty) == [fresh, [True]]
    for baseline in cache.baselines():
        target = tmp_path / cache.abi() / baseline
        target.mkdir(parents=True)
        workers = Workers(requests, 2, baseline, str(target))
        assert len(list(workers.finished())) == len(requests)
        workers.close()
        shipped = run_bits("shipped", tmp_path, baseline, name, NUMBA_CACHE_DIR=str(tmp_path / "none"))
        assert shipped == [fresh, [True]], baseline


PROGRAM = """
import json, sys
sys.modules["numba"] = None  # importing it raises
from thinstream.cli.app import run
code = run(["train", "d.svm", "-a", "perceptron", "-m", "m.ts", "-q"])
from thinstream import jit
print(json.dumps([code, sorted({was_in_file for _, _, was_in_file in jit.specialisations})]))
"""


@compiled_only
@pytest.mark.slow
def test_an_installed_wheel_trains_without_numba(tmp_path):
    """A package with the code of `thinstream train`, an empty cache, and numba blocked; then on each baseline."""
    package = tmp_path / "thinstream"
    shutil.copytree(Path(SOURCE) / "thinstream", package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "d.svm").write_text("1 1:1 3:2\n-1 2:1\n" * 10)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("NUMBA_DISABLE_JIT", None)
    with rehearse(ignores_files=True) as rehearsal:
        from thinstream.cli.app import run

        assert run(["train", str(tmp_path / "d.svm"), "-a", "perceptron", "-q"]) == 0
    models = []
    for baseline in cache.baselines():
        target = package / "compiled" / cache.abi() / baseline
        target.mkdir(parents=True)
        workers = Workers(rehearsal.requests, 2, baseline, str(target))
        assert len(list(workers.finished())) == len(rehearsal.requests)
        workers.close()
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert json.loads(done.stdout) == [0, [True]], done.stderr
        models.append((tmp_path / "m.ts").read_bytes())
        shutil.rmtree(target)
    assert len(set(models)) == 1
    assert not (tmp_path / "cache").exists()
