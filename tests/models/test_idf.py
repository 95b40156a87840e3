"""Inverse document frequencies: those of scikit-learn once all rows have been seen, and those so far before."""

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from thinstream.batch import Batch
from thinstream.models.preparation import Preparation

WIDTH = 12


def counts(n=50):
    rng = np.random.default_rng(0)
    return sp.csr_matrix(rng.poisson(np.linspace(0.1, 2.0, WIDTH), (n, WIDTH)).astype(np.float64))


def batch_of(X):
    return Batch.of(X.indptr, X.indices.astype(np.int32), X.data, WIDTH)


def test_after_all_rows_it_is_tfidf_of_scikit_learn():
    X = counts()
    preparation = Preparation("idf", "l2")
    preparation.widen(WIDTH)
    preparation.learn(batch_of(X), np.dtype("float64"))
    found = preparation.apply(batch_of(X), np.dtype("float64"))
    theirs = TfidfTransformer().fit_transform(X)
    np.testing.assert_allclose(found.values, theirs.data, rtol=1e-12)
    np.testing.assert_allclose(1 / preparation.divisors(WIDTH), TfidfTransformer().fit(X).idf_, rtol=1e-12)


def test_a_row_is_learned_with_the_rows_so_far():
    X = counts(20)
    preparation = Preparation("idf")
    preparation.widen(WIDTH)
    found = preparation.learn(batch_of(X), np.dtype("float64"))[0].values
    for row in range(20):
        idf = TfidfTransformer(norm=None).fit(X[: row + 1])
        part = slice(X.indptr[row], X.indptr[row + 1])
        np.testing.assert_allclose(found[part], idf.transform(X[row]).data, rtol=1e-12)
