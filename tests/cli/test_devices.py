"""``--device``: where models learn; files are the same wherever that was."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.lanes.cuda.cases import require_device
from thinstream.errors import InvalidInputError
from thinstream.training.checkpoint import Checkpoints


@pytest.fixture
def colours(there):
    """Rows of four classes."""
    rng = np.random.default_rng(1)
    lines = [f"{k % 4} 1:{rng.normal():.2f} {2 + k % 3}:{rng.normal():.2f}\n" for k in range(90)]
    Path("d.svm").write_text("".join(lines))
    return "d.svm", "--classes", "0,1,2,3"


@pytest.mark.interpreted
@pytest.mark.gpu
@pytest.mark.parametrize("options", [["-a", "arow"], ["-a", "fsol", "--scale", "rms", "--grow-classes"]])
def test_train_on_a_device(colours, thin, monkeypatch, options):
    """Stopped and resumed, too: the same bytes."""
    require_device()
    common = [*(colours[:1] if "--grow-classes" in options else colours), *options, "--checkpoint-every", "31"]
    on_cpu = thin("train", *common, "--device", "cpu", "-m", "cpu.ts")
    assert "GPU" not in on_cpu.errors
    on_gpu = thin("train", *common, "--device", "cuda", "-m", "gpu.ts")
    assert on_gpu.errors.count(" lanes on the GPU\n") == 1
    thin("train", *common, "--device", "auto", "-m", "auto.ts", "-q")
    write = Checkpoints.write

    def stopping(self, state, source):
        write(self, state, source)
        if state.progress.rows >= 62:
            raise InvalidInputError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "write", stopping)
        thin("train", *common, "--device", "cuda", "-m", "parts.ts", "-q", code=1)
    resumed = thin("train", *common, "--device", "cuda", "-m", "parts.ts", "--resume")
    assert "lanes on the GPU" in resumed.errors
    thin("train", colours[0], "--from", "gpu.ts", "--device", "cuda", "-m", "gpu2.ts", "-q")
    thin("train", colours[0], "--from", "cpu.ts", "--device", "cpu", "-m", "cpu2.ts", "-q")
    for name, other in (("gpu", "cpu"), ("auto", "cpu"), ("parts", "cpu"), ("gpu2", "cpu2")):
        assert Path(f"{name}.ts").read_bytes() == Path(f"{other}.ts").read_bytes()
    assert thin("predict", colours[0], "-m", "gpu.ts") == thin("predict", colours[0], "-m", "cpu.ts")


@pytest.mark.interpreted
@pytest.mark.gpu
def test_a_signal_between_chunks(colours, thin, monkeypatch):
    """A last checkpoint has what was on the device."""
    require_device()
    thin("train", *colours, "-a", "fsol", "--device", "cpu", "-m", "cpu.ts", "-q")
    from thinstream.training.run import Run

    take = Run._take

    def stopped(self, rows):
        take(self, rows)
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_take", stopped)
        thin("train", *colours, "-a", "fsol", "--device", "cuda", "-m", "gpu.ts", "-q", code=143)
    thin("train", *colours, "-a", "fsol", "--device", "cuda", "-m", "gpu.ts", "-q", "--resume")
    assert Path("gpu.ts").read_bytes() == Path("cpu.ts").read_bytes()


def test_what_stays_on_the_cpu(data, thin):
    """Says why, once; nothing of a GPU is needed then."""
    said = thin("train", data, "-a", "fsol", "--device", "cuda")
    assert "thinstream: FSOL with two classes is a single model, which runs on the CPU, so this model" in said.errors
    said = thin("train", data, "-a", "fsol", "--device", "auto", "--json")
    assert "CPU" not in said.errors
    assert all(map(json.loads, said.splitlines()))


def test_bad_devices(colours, thin):
    said = thin("train", *colours, "--device", "gpu", code=2)
    assert "device must be 'auto', 'cpu' or 'cuda', got 'gpu'" in said.errors
    said = thin("train", *colours, "--engine", "local", "--device", "cuda", code=2)
    assert "--device cuda cannot be used with --engine" in said.errors


def test_without_a_gpu(colours, thin):
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install -e '.[cuda]'")
    from thinstream.lanes.cuda.package import cuda

    if cuda.is_available():
        pytest.skip("there is a GPU, or its simulator")
    assert "needs an NVIDIA GPU" in thin("train", *colours, "-a", "arow", "--device", "cuda", code=1).errors
    assert "GPU" not in thin("train", *colours, "-a", "arow").errors
