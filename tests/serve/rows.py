"""Rows to send, drawn by hypothesis or by a seed."""

import numpy as np
from hypothesis import strategies as st

from thinstream.batch import Batch


@st.composite
def packed_rows(draw):
    """A batch, labels and scores."""
    rows = draw(st.lists(st.sets(st.integers(0, 40), max_size=6), min_size=1, max_size=5))
    indices = [j for row in rows for j in sorted(row)]
    finite = st.floats(-1e6, 1e6, width=32).filter(bool)
    values = draw(st.lists(finite, min_size=len(indices), max_size=len(indices)))
    n = len(rows)
    many = st.lists(st.floats(0, 10), min_size=n, max_size=n).map(np.array)
    batch = Batch.of(
        np.cumsum([0, *map(len, rows)]),
        np.array(indices, np.int32),
        np.array(values, np.float32),
        41,
        weights=draw(st.none() | many),
    )
    labels = draw(st.lists(st.sampled_from(["ham", "späm", 1, 2.5, True]), min_size=n, max_size=n))
    finite_scores = st.lists(st.floats(-9, 9, width=32), min_size=n, max_size=n)
    scores = draw(st.none() | finite_scores.map(lambda s: np.array(s, np.float32)))
    return batch, labels, scores


def random_rows(n, seed=0, width=30):
    """Rows as requests have them, and labels that can be learned."""
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for _ in range(n):
        chosen = rng.choice(width, 6, replace=False)
        values = rng.normal(size=6).round(3)
        rows.append({str(j + 1): float(x) for j, x in zip(chosen, values) if x})
        labels.append(1 if values[chosen % 2 == 0].sum() > values[chosen % 2 == 1].sum() else -1)
    return rows, labels
