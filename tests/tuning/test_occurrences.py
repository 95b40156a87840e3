"""Studies of named features: as wide as what occurs, with the models that learning alone makes."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import thinstream as ts
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError
from thinstream.models.file import write
from thinstream.models.model import Model, make_learner
from thinstream.training.run import Run
from thinstream.tuning.cost_curves import study_costs
from thinstream.tuning.measures import scoring_of
from thinstream.tuning.passes import OccurringStream, narrowed
from thinstream.tuning.search import search
from thinstream.tuning.sparsity_path import Sweep, sweep_stream
from thinstream.tuning.study import StudyConfig, Trial

SWEEP = Sweep(4, 1.0, 1000.0)


@pytest.fixture(scope="module")
def table(tmp_path_factory: Any) -> Path:
    random = np.random.default_rng(5)
    lines = ["y,a,b,c"]
    for a, b, c in zip(random.integers(0, 200, 1500), random.integers(0, 900, 1500), random.random(1500), strict=True):
        lines.append(f"{int(a % 7 < 3)},k{a},u{b},{c:.3f}")
    path: Path = tmp_path_factory.mktemp("named") / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


class Cut:
    """A stream in small batches."""

    def __init__(self, stream: Any, size: int) -> None:
        self._stream, self._size = stream, size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def batches(self, *start: Any) -> Any:
        for batch in self._stream.batches(*start):
            for first in range(0, len(batch), self._size):
                yield batch.until(min(first + self._size, len(batch))).after(first)


def opened(table: Path, size: int = 10_000) -> Any:
    return Cut(ts.open_stream(table, label="y", classes=(0, 1)), size)


def config(**more: Any) -> StudyConfig:
    return StudyConfig("ssol", **more)


def saved(learner: Any, stream: Any) -> bytes:
    with TemporaryDirectory() as folder:
        write(Path(folder) / "model", Model(learner, Classes(0, 1), stream.feature_space))
        return (Path(folder) / "model").read_bytes()


def alone(table: Path, **parameters: Any) -> bytes:
    """The file of a model that learned by itself."""
    stream = opened(table)
    learner = make_learner("ssol", n_features=0, grow=True, **parameters)
    model = Run(stream, Model(learner, Classes(0, 1), stream.feature_space)).run()
    return saved(model.learner, stream)


def occurring(table: Path) -> set[int]:
    return {int(j) for batch in opened(table).batches() for j in batch.indices}


def test_a_path_counts_what_occurs_and_makes_the_models_of_train(table: Path) -> None:
    paths = []
    for size in (10_000, 37):
        stream = opened(table, size)
        paths.append(sweep_stream(stream, config(memory=10_000_000), Trial({}), SWEEP))
    path, cut = paths
    numbers = occurring(table)
    assert path.passes == 1
    assert path.n_met == path.n_weights == len(numbers)
    assert path.n_features == max(numbers) + 1
    np.testing.assert_array_equal(path.columns()["density"], path.nnz / len(numbers))
    assert path.nnz.min() > 0
    for k, l1 in enumerate(path.l1.tolist()):
        assert saved(path.model(k), stream) == saved(cut.model(k), stream) == alone(table, l1=l1)
    for name, column in path.columns().items():
        np.testing.assert_array_equal(column, cut.columns()[name], err_msg=name)


def test_test_rows_have_features_that_never_occurred(table: Path, tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("y,a,b,c\n1,k1,new,0.5\n0,other,new2,0.1\n1,k8,u7,0.9\n")
    stream, test = opened(table), opened(tmp_path / "test.csv")
    path = sweep_stream(stream, config(), Trial({}), SWEEP, test=test)
    [rows] = test.batches()
    wrong = [np.mean((path.model(k).scores(rows) > 0) != (rows.y > 0)) for k in range(SWEEP.n)]
    np.testing.assert_allclose(path.columns()["held_out_error"], wrong)


def test_several_passes_give_the_same_weights(table: Path) -> None:
    stream = opened(table)
    once = sweep_stream(stream, config(), Trial({}), Sweep(20, 1.0, 300.0))
    several = sweep_stream(stream, config(memory=200_000), Trial({}), Sweep(20, 1.0, 300.0))
    assert once.passes == 1 < several.passes
    for k in range(20):
        for a, b in zip(once.model(k).models, several.model(k).models, strict=True):
            for left, right in zip(a.sparse_weights(), b.sparse_weights(), strict=True):
                np.testing.assert_array_equal(left, right)


def test_a_search_keeps_the_model_that_train_makes(table: Path) -> None:
    stream = opened(table)
    terms = config(memory=10_000_000, folds=3)
    trials = [Trial({"l1": 1.0}), Trial({}, algorithm="arow")]
    found = search(stream, terms, trials, scoring_of("error"), models=True)
    assert found.passes == 1
    [model] = search(stream, terms, trials[:1], scoring_of("error"), models=True).models.values()
    assert saved(model, stream) == alone(table, l1=1.0)


def test_costs_take_memory_for_what_occurs(table: Path) -> None:
    stream = opened(table)
    assert study_costs(stream, config(memory=10_000_000), Trial({}), (0.2, 0.8)).passes == 1


def test_memory_is_told_for_what_occurs(table: Path) -> None:
    stream = opened(table)
    with pytest.raises(InvalidInputError, match=r"lanes of SSOL on (\d{3}|1,\d{3}) features need"):
        sweep_stream(stream, config(memory=5000), Trial({}), SWEEP)


def test_slots_stay_the_same_when_a_stream_is_read_again(table: Path) -> None:
    stream = OccurringStream(opened(table, 100))
    first, second = ([batch.indices.tolist() for batch in stream.batches()] for _ in range(2))
    assert first == second
    assert stream.numbering.n_met == len(occurring(table))


def test_a_rule_that_asks_for_the_width_has_it(table: Path) -> None:
    stream = opened(table)
    assert narrowed(stream, config(), [Trial({}), Trial({}, algorithm="smidas")]) == (stream, config(), None)
    terms = config()._replace(n_features=5_000_000)
    _, found, numbering = narrowed(stream, terms, [Trial({}), Trial({}, algorithm="arow")])
    assert numbering is not None
    assert found.n_features == 0
    assert numbering.n_features == 5_000_000
