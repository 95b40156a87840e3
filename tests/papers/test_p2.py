"""The experiments of P2: each runs on tiny pieces of its data, and their own pieces of logic."""

import json
import tarfile

import numpy as np
import pytest
import scipy.sparse as sp
from papers import p2_common, p2_fig1, p2_fig5, p2_stopping, p2_table3
from papers.data import Data, is_here, unit_vectors
from papers.keeping import Result
from papers.presenting import published
from papers.running import run
from papers.writing import write_page


@pytest.mark.slow  # every algorithm it compares is compiled
@pytest.mark.parametrize("module", [p2_fig1, p2_table3, p2_fig5, p2_stopping])
def test_smoke(module, tmp_path):
    if not is_here(p2_common.CORPUS):
        pytest.skip(f"the data set {p2_common.CORPUS} is not here")
    found = run(module.EXPERIMENT, tmp_path / "cells", smoke=True)
    write_page(module.EXPERIMENT, Result(found.rows, found.seconds, smoke=True), tmp_path)
    assert (
        "**comp vs rec" in (text := (tmp_path / f"{module.EXPERIMENT.name}.md").read_text()) or "| comp vs rec" in text
    )


def task_of(rows=60, width=30, seed=0):
    """Three parts of random rows whose first features tell the label."""
    rng = np.random.default_rng(seed)

    def part(n):
        X = sp.random(n, width, 0.3, "csr", np.float64, rng)
        y = np.where(X[:, :3].sum(axis=1).A1 > X[:, 3:6].sum(axis=1).A1, 1, -1).astype(np.int8)
        return Data(sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape), y)

    return p2_common.Task(part(rows), part(20), part(20))


def test_tf_idf_is_that_of_scikit_learn():
    from sklearn.feature_extraction.text import TfidfTransformer

    counts = sp.csr_matrix(np.random.default_rng(0).poisson(0.7, (30, 12)).astype(float))
    assert np.bincount(counts.indices, minlength=12).min() >= p2_common.DOCUMENTS
    for rows, norm in (("unit", "l2"), ("tf-idf", None)):
        expected = TfidfTransformer(norm=norm).fit_transform(counts).toarray()
        assert p2_common.tf_idf(counts, rows).toarray() == pytest.approx(expected)


def test_rare_words_go_and_frequent_ones_stay():
    counts = np.zeros((10, 3))
    counts[:9, 0], counts[:3, 1], counts[:6, 2] = 1, 5, 1
    assert p2_common.tf_idf(sp.csr_matrix(counts), "unit").shape == (10, 2)  # the second is in three rows only
    assert p2_common.tf_idf(sp.csr_matrix(counts), "unit", words=1).nnz == 9


def test_messages_from_lines_and_from_the_archive(tmp_path):
    lines = tmp_path / "some.jsonl"
    lines.write_text(json.dumps({"group": "comp.graphics", "text": "a mouse"}) + "\n")
    (tmp_path / "1").write_text("a mouse")
    with tarfile.open(tmp_path / "some.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "1", "20news-bydate-train/comp.graphics/1")
    for place in (lines, tmp_path / "some.tar.gz"):
        assert list(p2_common.messages(place)) == [("comp", "a mouse")]


def test_a_level_keeps_the_last_model_before_it_is_passed():
    data = task_of(width=100)
    watch = p2_fig5.Growth(data, 2)
    weights = np.zeros((100, 2))
    watch.see(weights, [0, 1])
    weights[:2, 0] = 1.0  # 2 %: past the first level for good
    watch.see(weights, [0, 1])
    weights[:2, 0] = 0.0
    weights[:50, 1] = 1.0
    watch.see(weights, [0, 1])
    found = watch.found
    assert found.density[:, 0].tolist() == [0.0] * len(p2_fig5.LEVELS)
    assert found.passed[:, 0].tolist() == [1.0] + [0.0] * (len(p2_fig5.LEVELS) - 1)
    assert found.passed[:, 1].all()
    assert found.density[-1, 1] == 0.0
    assert watch.left() == [0]
    both = (p2_common.errors(part.X, part.y, weights[:, :1])[0] for part in (data.valid, data.test))
    assert (found.valid[-1, 0], found.test[-1, 0]) == tuple(both)


@pytest.mark.slow  # lanes that no other test compiles
def test_runs_keep_to_the_levels_and_lanes_equal_single_runs():
    data = task_of()
    settings = [{"eta": 0.5, "l1": l1, "margin": 0.01} for l1 in (1e-3, 0.05)]
    together = p2_fig5.grown("StableSparsePerceptron", settings, data, 3, 2)
    for lane, setting in enumerate(settings):
        alone = p2_fig5.grown("StableSparsePerceptron", [setting], data, 3, 2)
        for one, all_ in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[:, 0], all_[:, lane])
    assert (together.density <= np.array(p2_fig5.LEVELS)[:, np.newaxis]).all()


def test_errors_count_zero_scores_as_negative():
    X, y = sp.csr_matrix(np.array([[1.0], [0.0], [-1.0]])), np.array([1, 1, -1], dtype=np.int8)
    assert p2_common.errors(X, y, np.array([[1.0, -1.0]])).tolist() == pytest.approx([1 / 3, 1.0])


@pytest.mark.slow  # the same lanes
def test_frozen_models_are_told_from_those_that_end():
    data = task_of()
    lanes = p2_stopping.learned(data, [{"eta": 1.0, "max_density": bound} for bound in (0.2, 1.0)], 0, 2)
    weights = np.asarray(lanes.scores(unit_vectors(data.width)))
    early, late = (p2_stopping.counted(lanes[k], weights[:, k], data, 2) for k in range(2))
    assert early["frozen"] == 1
    assert early["passes"] < 1
    assert early["density"] >= 20
    assert late["updates"] >= early["updates"]


def test_descent_diverges_below_and_settles_above_the_norm():
    data, norm = task_of().train, p2_fig1.safe_gamma(task_of().train.X)
    wild, calm = p2_fig1.descended(data, norm / 10, 5), p2_fig1.descended(data, norm, 5)
    assert wild[-1]["potential"] > wild[0]["potential"] == calm[0]["potential"] > calm[-1]["potential"]
    assert wild[0]["radius"] == pytest.approx(9.0)
    assert calm[0]["radius"] <= 1.0
    assert p2_fig1.passed(data, 3)[-1]["size"] < 1


def test_every_task_has_the_papers_numbers():
    paper = published("p2-table3")
    rows = [
        {"task": name, "factor": f, "within": 0.5, "mean": -9.0, "std": 1.0}
        for name in p2_common.SIZES
        for f in (2.0, 0.5)
    ]
    assert len(list(p2_table3.compare(rows))) == 4 * len(p2_common.SIZES)
    assert paper["rcv1", "SMIDAS p=2 ln d", "exponent"] == (-136.8, 32.6)
