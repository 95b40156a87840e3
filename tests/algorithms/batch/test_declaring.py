"""A batch algorithm is one file: what follows from its declaration."""

from typing import NamedTuple

import numpy as np
import pytest

import thinstream as ts
from tests.estimators.generating import generate_estimator
from thinstream.algorithms.batch.base import BatchLearner, runs
from thinstream.algorithms.registry import find
from thinstream.engine.parameters import Positive
from thinstream.engine.protocol import OneModel
from thinstream.engine.rule import REGISTRY
from thinstream.errors import InvalidParameterError
from thinstream.models.model import make_learner


@pytest.fixture
def centroids():
    """Its weights are the difference of the classes' sums."""
    before = dict(REGISTRY)

    class Centroids(NamedTuple):
        """The way from one class to the other.

        Parameters
        ----------
        factor : float, default=1.0
            How long it is.

        Examples
        --------
        None.

        """

        factor: Positive = 1.0

    @runs(Centroids, paper="P9", order="first")
    class CentroidsLearner(BatchLearner):
        def learn_rows(self, examples, *, last=True):
            rows = self.prepare(examples)
            X, c = rows.sparse(self.dtype), rows.all_costs(self.costs)
            self.w = (self.rule.factor * (X.T @ (c * rows.y))).astype(self.dtype)
            self.counts[:] = 0
            self.count(X @ self.w, rows.y, np.zeros(len(rows)), updates=1)
            return self.row_scores(examples.X)

    yield CentroidsLearner
    REGISTRY.clear()
    REGISTRY.update(before)


def test_registry_learner_and_estimator_follow(centroids, tmp_path, monkeypatch):
    generate_estimator("Centroids", monkeypatch)
    found = find("centroids")
    assert (found.name, found.kind, found.learner) == ("Centroids", "batch", centroids)
    assert found in ts.algorithms("batch")
    assert isinstance(make_learner("centroids", n_features=2, factor=2.0), OneModel)
    model = ts.make("centroids", factor=0.5, fit_intercept=False).fit([[1.0, 0.0], [0.0, 2.0]], ["a", "b"])
    np.testing.assert_array_equal(model.coef_, [[-0.5, 1.0]])
    assert model.predict([[0.0, 1.0]]).tolist() == ["b"]
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(ts.load(tmp_path / "m").coef_, model.coef_)
    with pytest.raises(InvalidParameterError, match="Centroids: factor must be a number > 0, got 0"):
        make_learner("centroids", n_features=2, factor=0)
