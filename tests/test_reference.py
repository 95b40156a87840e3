"""The reference results: equal code gives equal results, and a difference in one bit is found."""

import numpy as np
from tools.reference import main


def test_one_bit_is_found(tmp_path, capsys):
    path, only = tmp_path / "reference.npz", ["--only", "Perceptron {}"]
    assert main(["write", str(path), *only]) == 0
    assert main(["compare", str(path), *only]) == 0
    assert "4 of 4 runs agree" in capsys.readouterr().out
    with np.load(path) as file:
        arrays = {name: file[name].copy() for name in file.files}
    weights = arrays["Perceptron {} 2 classes|coef_"]
    weights.view(np.uint32)[0, 0] ^= 1
    np.savez(path, **arrays)
    assert main(["compare", str(path), *only]) == 1
    out = capsys.readouterr().out
    assert "3 of 4 runs agree" in out
    assert "differs: Perceptron {} 2 classes" in out
