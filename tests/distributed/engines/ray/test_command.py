"""``thinstream train --engine ray``, on the cluster that RAY_ADDRESS names."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from thinstream.models import file

pytestmark = pytest.mark.ray


def test_train_on_ray(ray_cluster: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    for part in range(2):
        values = draw.normal(size=(150, 3)).round(3)
        lines = [f"{1 if a + b > c else -1} 1:{a} 4:{b} 9:{c}\n" for a, b, c in values]
        (tmp_path / f"part-{part}.svm.gz").write_bytes(gzip.compress("".join(lines).encode()))

    def trained(name: str, *options: str) -> Path:
        command = [sys.executable, "-m", "thinstream", "train", "part-*.svm.gz", "-a", "fsol", "-m", name, *options]
        environment = {**os.environ, "RAY_ADDRESS": ray_cluster}
        run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
        assert "300" in run.stdout
        return tmp_path / name

    alone = file.read(trained("serial.ts"))
    one = file.read(trained("one.ts", "--engine", "ray", "--workers", "1"))
    assert [array.tobytes() for array in one.learner.outputs.one.memory] == [
        array.tobytes() for array in alone.learner.outputs.one.memory
    ]
    two = file.read(trained("two.ts", "--engine", "ray", "--workers", "2"))
    assert two.learner.t == 300
    assert sorted(path.name for path in tmp_path.glob("*.ts*")) == ["one.ts", "serial.ts", "two.ts"]
