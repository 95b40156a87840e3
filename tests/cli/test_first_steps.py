"""What new users trip over."""

from pathlib import Path

import numpy as np
import pytest

from thinstream.learners import Classes


@pytest.fixture
def arow(data, thin):
    """A model of AROW."""
    thin("train", "d.svm", "-a", "arow", "-m", "arow.ts", "-q")
    return "arow.ts"


def test_options_are_those_of_the_model_that_goes_on(arow, thin):
    said = thin("train", "d.svm", "--from", arow, "--eta", "1", code=2).errors
    assert "AROW has no --eta, it has --r" in said
    assert (
        "learned with r 1.0; it cannot go on with 2"
        in thin("train", "d.svm", "--from", arow, "--r", "2", code=2).errors
    )
    thin("train", "d.svm", f"--from={arow}", "--r", "1", "-m", "more.ts", "-q")
    thin("train", "d.svm", "-a", "arow", "--from", arow, "--r", "1", "-q")


def test_what_is_no_model_file(data, thin):
    for words in (["train", "d.svm", "--from", "d.svm"], ["predict", "d.svm", "-m", "d.svm"], ["inspect", "d.svm"]):
        assert "d.svm: is not a model file" in thin(*words, code=1).errors


def test_no_words_of_python(data, there, thin):
    assert str(Classes("ham", "spam")) == "'ham', 'spam'"
    Path("d.csv").write_text("a,b\n1,2\n")
    said = thin("train", "d.csv", code=1).errors
    assert "there is no column 'label' among 'a', 'b'; --label" in said
    assert "None" not in said
    for name, classes in (("one", "no,yes"), ("two", "ham,spam")):
        Path(f"{name}.csv").write_text("label,a\n" + "".join(f"{label},1\n" for label in classes.split(",")))
        thin("train", f"{name}.csv", "--classes", classes, "-m", f"{name}.ts", "-q")
    said = thin("merge", "one.ts", "two.ts", "-m", "both.ts", code=1).errors
    assert "differ in their classes: 'no', 'yes' and 'ham', 'spam'" in said


def test_a_model_worse_than_a_constant_gets_a_remark(there, thin):
    rng = np.random.default_rng(0)
    lines = [f"{'+1' if rng.random() < 0.1 else '-1'} 1:{rng.normal():.3f} 2:{rng.normal():.3f}" for _ in range(600)]
    Path("noise.svm").write_text("\n".join(lines) + "\n")
    said = thin("train", "noise.svm", "-a", "perceptron").errors
    assert "always answering -1 would be wrong in" in said
    Path("clear.svm").write_text("".join(f"{'+1' if k % 3 else '-1'} {1 + (k % 3 > 0)}:1\n" for k in range(600)))
    assert "always answering" not in thin("train", "clear.svm", "-a", "perceptron").errors
