"""Kernels compiled for an H200 without one: nothing is missing, and nothing is fused outside the maths library."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from tests.lanes.cuda.cases import variants
from thinstream.algorithms.registry import find, rule_of


@pytest.fixture
def to_ptx(monkeypatch):
    """Compiles a kernel for sm_90; skips where the toolkit's libNVVM is not installed."""
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install -e '.[cuda]'")
    from thinstream.lanes.cuda.package import SIMULATED, cuda, tell_cuda, unfused

    if SIMULATED:
        pytest.skip("the simulator compiles nothing")
    from cuda.pathfinder import DynamicLibNotFoundError
    from numba.cuda import cuda_paths, dispatcher
    from numba.cuda.cudadrv import nvrtc

    # what a driver and NVRTC would be asked for
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    monkeypatch.setattr(nvrtc, "get_supported_ccs", lambda: ((9, 0),))
    monkeypatch.setattr(cuda_paths, "_get_nvrtc_path", lambda: None)

    def compiled(kernel, types):
        try:
            tell_cuda()
            with unfused():
                return cuda.compile(kernel.py_func, types, device=False, abi="numba", cc=(9, 0), output="ptx")[0]
        except DynamicLibNotFoundError:
            pytest.skip("libNVVM is not installed: pip install -e '.[cuda]'")

    return compiled


def fused(ptx):
    return len(re.findall(r"\bfma\.", ptx))


def arguments(rule, real):
    """The types a learning kernel is launched with."""
    from numba.cuda import types
    from numba.cuda.typing.typeof import typeof

    from thinstream.lanes.cuda.kernels import Columns, DeviceMemory, DeviceRows, DeviceTables

    def arrays(record, *kinds):
        return types.NamedTuple([types.Array(k[0], k[1], "C") if isinstance(k, tuple) else k for k in kinds], record)

    f64, i64, i32 = types.float64, types.int64, types.int32
    return (
        typeof(rule),
        arrays(DeviceTables, (f64, 2), (i64, 2), (f64, 1), (f64, 1), (types.boolean, 1), (i64, 1)),
        arrays(DeviceRows, (i64, 1), (i32, 1), (real, 1), i64, i64),
        arrays(Columns, (types.int8, 2), (f64, 2), (i32, 1), (i32, 1)),
        f64,
        arrays(DeviceMemory, (real, 2), (f64, 2), (i64, 2), (f64, 2), (f64, 2)),
        types.Array(i64, 1, "C"),
        types.Array(real, 2, "C"),
    )


def cases():
    seen = set()
    for name, choice in variants():
        rule = rule_of(find(name), choice)
        kinds = type(rule), tuple(type(value) for value in rule)
        if kinds not in seen:  # codes are numbers at run time
            seen.add(kinds)
            for dtype in ("float32", "float64"):
                quick = (name, dtype) == ("FSOL", "float32") and not choice
                yield pytest.param(name, choice, dtype, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "choice", "dtype"), list(cases()))
def test_every_rule(to_ptx, name, choice, dtype):
    from numba.cuda import types

    from thinstream.lanes.block import with_floats
    from thinstream.lanes.cuda.kernels import learning
    from thinstream.lanes.cuda.team import can_share, team

    rule = with_floats(rule_of(find(name), choice))

    def compiled(real):
        kernels = [learning(type(rule))]
        if can_share(type(rule)):
            kernels.append(team(type(rule), bool(rule.observes()), np.dtype(real).type, 16, 128))
        return [to_ptx(kernel, arguments(rule, getattr(types, real))) for kernel in kernels]

    found = compiled(dtype)
    for ptx in found:
        assert ".target sm_90" in ptx
        assert ".extern" not in ptx
        assert "fma.rn.f32" not in ptx
    # exp and log1p of an example have 64 bits, whatever those of its coordinates
    library = [fused(ptx) for ptx in compiled("float32")] if hasattr(rule, "loss") else [0] * len(found)
    assert [fused(ptx) for ptx in found] == library


def test_what_is_not_ours_is_fused_as_ever(to_ptx):
    from numba.cuda import types

    from thinstream.lanes.cuda.package import cuda, kernel

    def ours(out):
        out[0] = out[0] * out[1] + out[2]

    signature = (types.Array(types.float32, 1, "C"),)
    assert fused(to_ptx(kernel(ours), signature)) == 0
    assert fused(cuda.compile(ours, signature, device=False, abi="numba", cc=(9, 0), output="ptx")[0]) == 1


@pytest.mark.slow
def test_what_was_compiled_for_the_cpu_is_none_of_the_kernels(to_ptx, monkeypatch, tmp_path):
    """numba-cuda would inline the CPU's own version of a function into kernels, and fail."""
    from numba.cuda import types

    from tests.lanes.test_lanes import WIDTH, stream
    from thinstream.lanes import loop as lanes_loop
    from thinstream.lanes.block import with_floats
    from thinstream.lanes.cuda.team import team
    from thinstream.lanes.lanes import Lanes

    monkeypatch.setattr(lanes_loop, "_LOOPS", {})
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # so that numba is told, and compiles
    Lanes("fsol", [{}, {}], n_features=WIDTH).learn(stream(np.random.default_rng(0), 5))
    rule = with_floats(rule_of(find("fsol"), {}))
    ptx = to_ptx(team(type(rule), False, np.float32, 16, 128), arguments(rule, types.float32))
    assert fused(ptx) == 0


def test_kernels_are_kept(to_ptx, monkeypatch, tmp_path):
    """What one process compiles another loads; not where something it was compiled from is another."""
    from numba.cuda import codegen, types
    from numba.cuda.descriptor import cuda_target
    from numba.cuda.dispatcher import _Kernel

    from thinstream.lanes.cuda.package import KeptKernels, unfused

    def doubled(out):
        out[0] *= 2

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(codegen.CUDACodeLibrary, "_ensure_cc", lambda library, cc: (9, 0))  # no driver to ask
    signature, asked = (types.Array(types.float32, 1, "C"),), []
    kept = KeptKernels(doubled, (), (16,), lambda: asked.append(1))
    assert kept.load_overload(signature, cuda_target.target_context) is None
    assert asked
    with unfused():
        made = _Kernel(doubled, signature, lto=False, max_registers=32)
        text = made._codelibrary.get_asm_str(cc=(9, 0))
    kept.save_overload(signature, made)
    again = KeptKernels(doubled, (), (16,), lambda: None).load_overload(signature, cuda_target.target_context)
    assert again._codelibrary.get_asm_str(cc=(9, 0)) == text
    assert again._codelibrary._max_registers == 32
    for other in (
        KeptKernels(doubled, (), (8,), lambda: None),
        KeptKernels(doubled, ("thinstream.batch",), (16,), print),
    ):
        assert other.load_overload(signature, cuda_target.target_context) is None
