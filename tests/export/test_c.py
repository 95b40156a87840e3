"""The C header, compiled strictly and run: its scores are the learner's."""

import re
import shutil
import struct
import subprocess

import numpy as np
import pytest

from tests.export.linear_models import MODELS, close, each, made, trained_model
from thinstream.export import export
from thinstream.export.formats.c import identifier

_MAIN = """
#include "NAME.h"
#include "NAME.h"
#include <stdio.h>

int main(void) {
    uint32_t n;
    static INDEX indices[4096];
    static REAL values[4096];
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        if (fread(indices, sizeof *indices, n, stdin) != n || fread(values, sizeof *values, n, stdin) != n) {
            return 1;
        }
        printf("%a %d %s%c", (double) NAME_score(indices, values, n), NAME_predict(indices, values, n),
               NAME_label(indices, values, n), 0);
    }
    return 0;
}
"""


@pytest.fixture(params=MODELS)
def trained(request):
    return trained_model(*request.param)


def run_c(folder, linear, examples, name="model", index="uint32_t"):
    """(score, predicted, label) of each row, by a program compiled against the header."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: cc is not on the PATH")
    export(linear, folder / f"{name}.h")
    real = "float" if linear.weights.dtype == np.float32 else "double"
    main = _MAIN.replace("INDEX", index).replace("REAL", real).replace("NAME.h", f"{name}.h")
    (folder / "main.c").write_text(main.replace("NAME", identifier(name)))
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    built = subprocess.run([compiler, *strict, "main.c", "-o", "main"], cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    kind = np.uint64 if index == "uint64_t" else np.uint32
    dtype = linear.weights.dtype
    stream = b"".join(
        struct.pack("=I", len(j)) + np.asarray(j, kind).tobytes() + np.asarray(x, dtype).tobytes() for j, x in examples
    )
    out = subprocess.run([folder / "main"], input=stream, capture_output=True, check=True).stdout.decode()
    found = [line.split(" ", 2) for line in out.split("\0")[:-1]]
    return [(float.fromhex(score), int(predicted), label) for score, predicted, label in found]


def test_c_scores_as_the_learner(trained, tmp_path):
    learner, linear, batch = trained
    found = run_c(tmp_path, linear, each(batch))
    close([score for score, *_ in found], learner, linear, batch)
    for score, predicted, label in found:
        assert predicted == (score > 0)
        assert label == linear.classes[int(score > 0)]


def test_c_keeps_every_bit(tmp_path):
    """Each weight, the smallest and largest included, as the score of a unit vector."""
    rng = np.random.default_rng(1)
    for dtype, bits in (("float32", np.uint32), ("float64", np.uint64)):
        dense = rng.integers(0, 2**63, 500, dtype=np.uint64).astype(bits).view(dtype)
        info = np.finfo(dtype)
        dense = np.concatenate([dense[np.isfinite(dense)], [info.max, info.tiny, info.smallest_subnormal]])
        dense = dense.astype(dtype)
        found = run_c(tmp_path, made(dense, dtype), [([j], [1]) for j in range(len(dense))])
        assert np.array([score for score, *_ in found], dtype=dtype).tobytes() == dense.tobytes()


@pytest.mark.parametrize("name", ["my-model 2", "7", "größe", "_x", "int"])
def test_c_names_after_the_file(name, tmp_path):
    found = run_c(tmp_path, made([2.0, -1.0], names={0: "a"}), [([0], [1]), ([1, 0], [1, 0.25]), ([], [])], name)
    assert found == [(2.0, 1, "1"), (-0.5, 0, "-1"), (0.0, 0, "-1")]
    guard = re.search(r"#ifndef (\w+)", (tmp_path / f"{name}.h").read_text())
    assert guard is not None
    assert guard[1] == f"THINSTREAM_{identifier(name).upper()}_H"


def test_c_of_wide_columns(tmp_path):
    linear = made([1.0, 2.0])._replace(indices=np.array([5, 2**33]), n_features=2**34)
    found = run_c(tmp_path, linear, [([5], [1]), ([2**33], [1]), ([0], [1])], index="uint64_t")
    assert [score for score, *_ in found] == [1.0, 2.0, 0.0]


def test_c_without_weights(tmp_path):
    found = run_c(tmp_path, made([0.0, 0.0], intercept=0.5), [([0, 1, 9], [1, 1, 1])])
    assert found == [(0.5, 1, "1")]


def test_identifiers_outlive_odd_file_names():
    for name in ("", "a.b", "9lives", "__", "ß"):
        assert re.fullmatch(r"[A-Za-z]\w*", identifier(name), flags=re.A)
