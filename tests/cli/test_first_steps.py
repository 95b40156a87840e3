"""What new users trip over."""

from pathlib import Path

import numpy as np
import pytest

import thinstream as ts
from thinstream.cli.render import warn_of_error
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError
from thinstream.models.file import read
from thinstream.training.metrics import Progress


@pytest.fixture
def arow(data, thin):
    """A model of AROW."""
    thin("train", "d.svm", "-a", "arow", "-m", "arow.ts", "-q")
    return "arow.ts"


def test_options_are_those_of_the_model_that_goes_on(arow, thin):
    said = thin("train", "d.svm", "--from", arow, "--eta", "1", code=2).errors
    assert "AROW has no option --eta. Its options are --r" in said
    assert (
        "was trained with r 1.0, and cannot continue with 2"
        in thin("train", "d.svm", "--from", arow, "--r", "2", code=2).errors
    )
    thin("train", "d.svm", f"--from={arow}", "--r", "1", "-m", "more.ts", "-q")
    thin("train", "d.svm", "-a", "arow", "--from", arow, "--r", "1", "-q")


def test_what_is_no_model_file(data, thin):
    for words in (["train", "d.svm", "--from", "d.svm"], ["predict", "d.svm", "-m", "d.svm"]):
        assert "d.svm: is not a model file" in thin(*words, code=1).errors


def test_no_words_of_python(data, there, thin):
    assert str(Classes("ham", "spam")) == "'ham', 'spam'"
    Path("d.csv").write_text("a,b\n1,2\n")
    said = thin("train", "d.csv", code=1).errors
    assert "there is no column 'label', only 'a', 'b'; name it with --label" in said
    assert "None" not in said
    for name, classes in (("one", "no,yes"), ("two", "ham,spam")):
        Path(f"{name}.csv").write_text("label,a\n" + "".join(f"{label},1\n" for label in classes.split(",")))
        thin("train", f"{name}.csv", "--classes", classes, "-m", f"{name}.ts", "-q")
    said = thin("merge", "one.ts", "two.ts", "-m", "both.ts", code=1).errors
    assert "differ in their classes: 'no', 'yes' and 'ham', 'spam'" in said


def test_options_are_called_as_they_are_typed(data, thin):
    said = thin("train", "d.svm", "-a", "ssol", "--update-on", "los", code=2).errors
    assert "SSOL: --update-on must be 'every' or 'loss', got 'los'" in said


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--label", "Lable"], "there is no column 'Lable', only 'label', 'age', 'city'; did you mean 'label'?"),
        (["--categorical", "citty"], "'citty', only 'label', 'age', 'city'; did you mean 'city'?"),
        (["--ignore", "agee"], "did you mean 'age'?"),
        (["--weight", "nothing like it"], "'nothing like it', only 'label', 'age', 'city'\n"),
        (["--cross", "age,cty"], "did you mean 'city'?"),
        (["-a", "aroww"], "did you mean 'AROW'?"),
    ],
)
def test_what_was_meant(words, hint, there, thin):
    Path("d.csv").write_text("label,age,city\n1,3,Oslo\n0,4,Rome\n")
    given = ["-q", *words] if "-a" in words else ["-q", "-a", "fsol", *words]
    assert hint in thin("train", "d.csv", *given, code=2 if "-a" in words else 1).errors


def test_columns_of_new_files_that_were_meant(there, thin):
    Path("d.csv").write_text("label,age,city\n1,3,Oslo\n0,4,Rome\n")
    thin("train", "d.csv", "-a", "fsol", "-q", "-m", "m.ts")
    Path("new.csv").write_text("age,City\n3,Oslo\n")
    said = thin("predict", "new.csv", "-m", "m.ts", code=1).errors
    assert "'city'; it has 'age', 'City'; did you mean 'City'?" in said
    frame = pytest.importorskip("pandas").DataFrame({"Age": [3], "city": ["Oslo"]})
    with pytest.raises(InvalidInputError, match="learned from: 'age'; did you mean 'Age'"):
        ts.load("m.ts").predict(frame)


@pytest.mark.parametrize(
    ("place", "name", "meant"),
    [
        (ts, "FSLO", "FSOL"),
        (ts, "fsol", "FSOL"),
        (ts, "Sparsitypath", "SparsityPath"),
        (ts.datasets, "sparse_gausian", "sparse_gaussian"),
        (ts.data, "from_memry", "from_memory"),
        (ts.distributed, "trian", "train"),
    ],
)
def test_attributes_that_were_meant(place, name, meant):
    with pytest.raises(AttributeError, match=f"has no attribute {name!r}; did you mean {meant!r}"):
        getattr(place, name)
    with pytest.raises(AttributeError, match=r"has no attribute '__nothing__'$"):
        place.__nothing__  # noqa: B018
    with pytest.raises(TypeError, match=r"has no parameter 'etta'; it has .*; did you mean 'eta'"):
        ts.FSOL(etta=1.0)


def test_a_model_worse_than_a_constant_gets_a_remark(there, thin):
    rng = np.random.default_rng(0)
    lines = [f"{'+1' if rng.random() < 0.1 else '-1'} 1:{rng.normal():.3f} 2:{rng.normal():.3f}" for _ in range(600)]
    Path("noise.svm").write_text("\n".join(lines) + "\n")
    said = thin("train", "noise.svm", "-a", "perceptron").errors
    assert "always predicting -1 would misclassify" in said
    assert "Pass --scale max" in said
    assert "Run 'thinstream tune' to find" in said
    assert "Pass --scale max" not in thin("train", "noise.svm", "-a", "perceptron", "--scale", "max").errors
    costs = (("--class-weight", "1,9"), ("--class-weight", "balanced"))
    for asked in (("--threshold", "-0.1"), ("--recall", "0.9"), *costs):  # which costs mistakes
        assert "always predicting" not in thin("train", "noise.svm", "-a", "perceptron", *asked).errors
    Path("clear.svm").write_text("".join(f"{'+1' if k % 3 else '-1'} {1 + (k % 3 > 0)}:1\n" for k in range(600)))
    assert "always predicting" not in thin("train", "clear.svm", "-a", "perceptron").errors


def test_the_advice_fits_the_algorithm(there, thin, capsys):
    Path("clear.svm").write_text("".join(f"{'+1' if k % 3 else '-1'} {1 + (k % 3 > 0)}:1\n" for k in range(600)))
    thin("train", "clear.svm", "-m", "auto.ts", "-q")
    progress = Progress()
    progress.update(np.where(np.arange(600) % 2, 1.0, -1.0), np.where(np.arange(600) % 3, 1, -1).astype(np.int8))
    warn_of_error(progress.report(), read(Path("auto.ts")))
    said = capsys.readouterr().err
    assert said.endswith("would misclassify 33.33%. Run 'thinstream diagnose' to find out why\n")


def test_calibrate_gives_probabilities(there, thin):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    lines = [f"{k} 1:{k + rng.normal():.3f} 2:1\n" for k in y]
    Path("d.svm").write_text("".join(lines))
    thin("train", "d.svm", "-a", "arow", "--r", "10", "--calibrate", "-m", "m.ts", "-q")
    shares = np.array(thin("predict", "d.svm", "-m", "m.ts", "--proba").split(), float)
    assert np.mean(shares[y == 1]) == pytest.approx(np.mean(shares**2) / np.mean(shares), abs=0.05)
    assert abs(np.mean(shares) - 0.5) < 0.05
    same = ts.AROW(calibrate=True, r=10.0, fit_intercept=True, grow=True)
    stream = ts.open_stream("d.svm")
    expected = np.concatenate([*same.fit_stream(stream).predict_stream(ts.open_stream("d.svm"))])
    assert [int(label) for label in thin("predict", "d.svm", "-m", "m.ts").split()] == expected.tolist()
    for words, message in (
        (("-a", "auto"), "Auto is already calibrated"),
        (("-a", "bcw"), "BCW is a batch method and has no progressive scores"),
        (("-a", "arow", "--engine", "local"), "--calibrate needs a single process"),
        (("--from", "m.ts"), "--calibrate needs a new model"),
    ):
        assert message in thin("train", "d.svm", "--calibrate", *words, code=2).errors


def test_export_says_where_it_is_and_can_be_quiet(there, thin):
    Path("d.svm").write_text("+1 1:1\n-1 2:1\n" * 50)
    thin("train", "d.svm", "-a", "arow", "-m", "m.ts", "-q")
    said = thin("export", "m.ts", "m.json").errors
    assert said == f"wrote m.json ({Path('m.json').stat().st_size} bytes)\n"
    quiet = thin("export", "m.ts", "m.json", "-q")
    assert (quiet, quiet.errors) == ("", "")


def test_a_large_model_says_how_small_it_could_be(there, thin, monkeypatch):
    from thinstream.cli import training

    Path("d.svm").write_text("".join(f"{k % 2} {1 + k}:1 {9000 + k % 7}:1\n" for k in range(3000)))
    assert "smaller " not in thin("train", "d.svm", "-a", "arow", "-m", "m.ts")
    monkeypatch.setattr(training, "LARGE", 1000)
    said = thin("train", "d.svm", "-a", "arow", "-m", "m.ts")
    assert "smaller            0.1 MB with --weights-only, which cannot continue to learn\n" in said
    thin("train", "d.svm", "-a", "arow", "-m", "w.ts", "--weights-only", "-q")
    from thinstream.models.file import read, weights_nbytes

    assert weights_nbytes(read("m.ts")) == pytest.approx(Path("w.ts").stat().st_size, rel=0.1)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "vw", "libsvm"])
def test_standard_input_is_recognized(kind, there):
    from tests.cli.commands import finished, process
    from tests.data.test_opening import CONTENTS

    code, out, errors = finished(process("train", "-", "-a", "arow", "-m", "m.ts", stdin=-1), CONTENTS[kind].encode())
    assert code == 0, errors
    assert "examples           2 " in out
    assert ("standard input looks like" in errors) == (kind != "libsvm")
