"""Explain predictions: what each feature of a row contributes to its score."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from thinstream.batch import Batch
from thinstream.data.cells import WEEKDAYS
from thinstream.data.in_memory import frames_of
from thinstream.data.objects import category_of
from thinstream.data.options import KEYS, in_feature_space
from thinstream.data.text.hashing import Hashing
from thinstream.data.text.tokens import Wording
from thinstream.models.importance import effect_importance
from thinstream.models.model import Model, Names, probabilities

#: Names of features that are collected while rows are read, and those with the largest effects that a model keeps.
NAMES, KEPT_NAMES = 100_000, 10_000


class Explanation(NamedTuple):
    """The score of a row as a sum: the intercept, the contribution of each feature, and those left out.

    With two classes, it is the score of the positive class, otherwise that of the predicted class.
    """

    label: Any  # predicted
    explained: Any  # the class whose score this is
    score: float
    probability: float | None  # of that class, if scores are log-odds
    intercept: float
    contributions: dict[str, float]  # by name of the feature, the largest |contribution| first
    others: float  # the sum of the contributions that were left out


def explain(
    model: Model, batch: Batch, top: int | None = None, names: Mapping[int, str] | None = None
) -> Iterator[Explanation]:
    """Explain the prediction of each row.

    Contributions are exact: weights times values of the row as the model prepares it. If a model has several kinds of
    prepared rows, such as Auto, their contributions are added. Intercept and contributions add up to the score, up to
    the rounding of its precision.

    Parameters
    ----------
    model : Model
        A model of any number of classes.
    batch : Batch
        The rows.
    top : int or None
        The number of contributions per row. None: all.
    names : mapping or None
        Names of features in addition to those that the model has.

    Examples
    --------
    >>> from thinstream.data.labels import Classes
    >>> rows = Batch.of(np.array([0, 2]), np.array([0, 2]), np.array([2.0, -3.0]), 3, y=np.array([1], np.int8))
    >>> model = Model.fresh("perceptron", Classes("ham", "spam"), n_features=3)
    >>> _ = model.learner.learn(rows)
    >>> [explanation] = explain(model, rows)
    >>> explanation.label, explanation.score, explanation.contributions
    ('spam', 13.0, {'column 2': 9.0, 'column 0': 4.0})

    """
    learner, two = model.learner.served(), model.classes.are_two
    scores, rows = learner.scores(batch), learner.ready(batch)
    names_by_number = {**(names or {}), **({} if model.names is None else model.names.as_dict())}
    chosen = model.chosen(scores).tolist()
    shares = probabilities(scores.astype(np.float64)) if model.has_probabilities else None
    weights = np.atleast_2d(learner.outputs.weights())
    intercepts = [float(one.intercept) for one in learner.outputs]
    noun = "hash" if "hashing" in model.feature_space else "column"
    for i, predicted in enumerate(chosen):
        output, explained = (0, 1) if two else (predicted, predicted)
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        where = rows.indices[part]
        slots, positions = np.unique(where % learner.n_slots, return_inverse=True)
        products = weights[output, where].astype(np.float64) * rows.values[part]
        sums = np.bincount(positions, products, len(slots))
        features = slots if learner.encoder is None else learner.encoder.numbers[slots - 1]
        order = np.argsort(-np.abs(sums), kind="stable")
        order = order[sums[order] != 0.0]
        if learner.products is not None:
            names_by_number |= learner.products.names(features[order][:top], names_by_number)
        pairs = zip(features[order][:top].tolist(), sums[order][:top].tolist(), strict=True)
        yield Explanation(
            model.classes[predicted],
            model.classes[explained],
            float(scores[i] if two else scores[i, output]),
            None if shares is None else float(shares[i, explained]),
            intercepts[output],
            {names_by_number.get(j, f"{noun} {j}"): value for j, value in pairs},
            0.0 if top is None else float(sums[order][top:].sum()),
        )


def with_largest_names(model: Model, n: int) -> Model:
    """Return the model with at most n of its names: those of the features with the largest effects."""
    names = model.names
    if names is None or len(names.texts) <= n or model.classes.n_models == 0:
        return model
    size = np.zeros(len(names.indices))
    for k, (features, weights) in enumerate(model.learner.served().sparse_feature_weights()):
        is_named = np.isin(features, names.indices)
        effects, _ = effect_importance(model.learner, features[is_named], np.full(is_named.sum(), k), weights[is_named])
        positions = np.searchsorted(names.indices, features[is_named])
        size[positions] = np.maximum(size[positions], effects)
    kept = np.sort(np.argsort(-size, kind="stable")[:n])
    return replace(model, names=Names(names.indices[kept], [names.texts[k] for k in kept.tolist()]))


# Names of hashed features that follow from columns (numbers, parts of dates, missing cells) or from cells in memory.

_YEARS = range(1970, 2100)
_MOST = 10_000  # columns


def known_names(model: Model) -> dict[int, str]:
    """Return names of hashed features that follow from the columns: all except categories and words."""
    if "hashing" not in model.feature_space:
        return {}
    hashing, reading = Hashing.from_dict(model.feature_space["hashing"]), model.reading
    parts = {
        "year": [str(year) for year in _YEARS],
        "month": [f"{month:02}" for month in range(1, 13)],
        "day": [f"{day:02}" for day in range(1, 32)],
        "hour": [f"{hour:02}" for hour in range(24)],
        "weekday": [*WEEKDAYS],
    }
    names_by_number: dict[int, str] = {}
    columns = [*(reading.get("columns") or reading.get(KEYS, ()))][:_MOST]
    for name in columns:
        if name in reading.get("dates", ()):
            for part, texts in parts.items():
                names_by_number |= {hashing.index(text, f"{name}.{part}="): f"{name}.{part}={text}" for text in texts}
        elif name not in model.feature_space.get("text", ()):
            names_by_number[hashing.index(name)] = name
        names_by_number[hashing.index("?", f"{name}=")] = f"{name}=?"
    return names_by_number


def cell_names(model: Model, X: Any) -> dict[int, str]:
    """Return the names of the hashed features in dicts, frames and texts: columns, their categories and words."""
    names_by_number, space = known_names(model), model.feature_space
    if "hashing" not in space:
        return names_by_number
    hashing, text = Hashing.from_dict(space["hashing"]), space.get("text", ())
    options = in_feature_space(space)
    wording = Wording(**{name: options[name] for name in ("ngrams", "chars", "lower", "stop") if name in options})
    for name, value in _cells(X, text, space.get("categorical", ())):
        if name in text and isinstance(value, str):
            for end, word in wording.features(value):
                names_by_number[hashing.index(word, name + end)] = f"{name}{end}^{word}"
        elif isinstance(value, str) or (name in space.get("categorical", ()) and value == value):
            category = value if isinstance(value, str) else category_of(value)
            names_by_number[hashing.index(category, f"{name}=")] = f"{name}={category}"
        else:
            names_by_number[hashing.index(name)] = name
        if len(names_by_number) >= NAMES:
            break
    return names_by_number


def with_names_of(model: Model, X: Any) -> Model:
    """Return a model of hashed features with the names in a frame, dicts or texts, up to the limit of names.

    A LazyFrame is read in batches.
    """
    names = {} if model.names is None else model.names.as_dict()
    for frame in frames_of(X):
        if len(names) >= NAMES:
            break
        names = cell_names(model, frame) | names
    return replace(model, names=model.names_kept(Names.of([*names.values()], [*names])) if names else None)


def _cells(X: Any, text: Sequence[str], categorical: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield column names with the distinct cells of frames, or with all cells of dicts.

    Columns of numbers yield one.
    """
    if hasattr(X, "get_columns") or hasattr(X, "iloc"):
        columns = X.get_columns() if hasattr(X, "get_columns") else [X.iloc[:, j] for j in range(X.shape[1])]
        for column in columns:
            dtype, name = str(column.dtype).lower(), str(column.name)
            if name not in categorical and dtype.startswith(("int", "uint", "float", "bool", "date")):
                yield name, 0.0
                continue
            cells = column.unique()
            values = cells.to_list() if hasattr(cells, "to_list") else cells.tolist()
            yield from ((name, value) for value in values if value is not None)
        return
    for record in _records(X, text):
        yield from record.items()


def _records(X: Any, text: Sequence[str]) -> list[Any]:
    """Rows of a list as dicts; none if they have no names."""
    rows = X if isinstance(X, list | tuple) else []
    if len(text) == 1 and all(isinstance(row, str) for row in rows):
        return [{text[0]: row} for row in rows]
    return [row for row in rows if isinstance(row, Mapping)]
