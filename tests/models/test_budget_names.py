"""Names of what is kept are kept exactly: in spaces of few numbers, where names share them all the time."""

import csv
import io
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinstream as ts
from tests.models.naive_budget import NaiveNamedBudget
from thinstream.batch import Batch, KeptNames
from thinstream.data import Hashing, Numbering, from_memory
from thinstream.data.labels import Classes
from thinstream.data.text.csv import CSV
from thinstream.data.text.jsonl import JSONLines
from thinstream.data.text.vw import VW
from thinstream.errors import InvalidInputError
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.models.slots import COLLISIONS
from thinstream.models.thin import thin
from thinstream.serve.shared_memory import Parts, Shared, publish, without_weights

TWO = Classes("ham", "spam")
HOW = Hashing(bits=5, exact=True)
WORDS = [f"w{k}" for k in range(60)] + [f"c={k}" for k in range(40)]


def rows_of(seed, count=80):
    """Dicts of some common and many rare names."""
    random, share = np.random.default_rng(seed), 1.0 / np.arange(1, len(WORDS) + 1)
    names = [random.choice(WORDS, random.integers(1, 9), replace=False, p=share / share.sum()) for _ in range(count)]
    rows = [
        {str(name): 1.0 if "=" in name else float(random.integers(1, 4)) for name in each.tolist()} for each in names
    ]
    return rows, random.choice([-1, 1], count).astype(np.int8)


def batch_of(rows, y, how=HOW, dtype="float64"):
    pairs = [(row, int(label)) for row, label in zip(rows, y, strict=True)]
    (batch,) = from_memory(pairs, hasher=Numbering(how), dtype=dtype).batches()
    return batch


def triples_of(row, how=HOW):
    """A key with a number is a feature of that name, as a whole."""
    return sorted(((how.index(name), name, x) for name, x in row.items()), key=lambda each: each[0])


def fresh(max_features=12, **more):
    return Model.fresh("arow", TWO, grow=True, max_features=max_features, fit_intercept=False, **more)


def learned(model, batch, *cuts):
    scores = []
    for start, stop in zip([0, *cuts], [*cuts, len(batch)], strict=True):
        model, found = model.learn(batch.until(stop).after(start), model.classes)
        scores.append(found)
    return model, np.concatenate(scores)


def kept_names(model):
    names = model.names_kept(None)
    return {} if names is None else names.as_dict()


cuts = st.lists(st.integers(1, 79), max_size=3, unique=True).map(sorted)


@given(st.integers(0, 30), st.integers(1, 40), st.integers(1, 3), cuts)
def test_it_is_what_the_book_says(seed, max_features, admit, cuts):
    rows, y = rows_of(seed)
    naive = NaiveNamedBudget(max_features, admit)
    expected = [naive.learn(triples_of(row), int(label)) for row, label in zip(rows, y, strict=True)]
    start = fresh(max_features, admit=admit, dtype="float64", parameters={"r": 1.0})
    model, scores = learned(start, batch_of(rows, y), *cuts)
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)
    assert kept_names(model) == naive.names
    assert model.learner.encoder.counters[COLLISIONS] == naive.apart
    others, labels = rows_of(seed + 100, 20)
    found = model.learner.scores(batch_of(others, labels))
    sums = [sum(naive.kept[n][0] * x for n, x in naive.known(triples_of(row))) for row in others]
    np.testing.assert_allclose(found, sums, rtol=1e-9, atol=1e-12)


@given(st.integers(0, 30), cuts, cuts)
def test_cuts_and_files_on_the_way_give_the_same_bytes(tmp_path_factory, seed, one, two):
    folder, (rows, y) = tmp_path_factory.mktemp("names"), rows_of(seed)
    batch = batch_of(rows, y)
    write(folder / "one", learned(fresh(), batch, *one)[0])
    model, start = fresh(), 0
    for stop in (*two, len(batch)):
        model, _ = model.learn(batch.until(stop).after(start), model.classes)
        write(folder / "two", model)
        model, start = read(folder / "two"), stop
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()


@pytest.mark.parametrize("seed", range(3))
def test_what_predicts_of_it_tells_names_apart(seed, tmp_path):
    rows, y = rows_of(seed, 200)
    model, _ = learned(fresh(20), batch_of(rows, y))
    others = batch_of(*rows_of(seed + 50, 60))
    expected = model.learner.scores(others)
    assert model.learner.ready(others).nnz < model.learner.ready(Batch.of(*plain_arrays(others))).nnz
    for grade in ("full", "weights"):
        write(tmp_path / grade, model, grade=grade)
        back = read(tmp_path / grade)
        np.testing.assert_array_equal(back.learner.scores(others), expected)
        assert back.names.as_dict() == kept_names(model)
    np.testing.assert_array_equal(thin(model, 1000).learner.scores(others), expected)
    publish(tmp_path / "shared", model)
    found = Shared(tmp_path / "shared", without_weights(model))().model
    np.testing.assert_array_equal(found.learner.scores(others), expected)
    assert len(Parts.of(model).slots) == 4


def plain_arrays(batch):
    return batch.indptr, batch.indices, batch.values, batch.n_features


def test_a_thin_model_has_the_names_of_what_is_left():
    rows, y = rows_of(1, 200)
    model, _ = learned(fresh(20), batch_of(rows, y))
    small = thin(model, 4)
    kept = small.learner.models
    numbers = next(iter(kept)).sparse_weights()[0].tolist()
    assert len(numbers) == 4
    assert all(kept_names(small)[number] == kept_names(model)[number] for number in numbers)


def as_csv(rows, y):
    columns = sorted({key for row in rows for key in row})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["label", *columns])
    for row, label in zip(rows, y, strict=True):
        writer.writerow([label, *(row.get(name, "") for name in columns)])
    return out.getvalue()


@pytest.mark.slow  # compiles every parser once more
def test_formats_agree_on_names():
    rows, y = rows_of(5)
    nested = [
        {**{k: x for k, x in row.items() if "=" not in k}, "c": [k[2:] for k in row if "=" in k], "text": "İ Ab aB"}
        for row in rows
    ]
    lines = "".join(
        json.dumps({"label": int(label), **row}) + "\n" for row, label in zip(nested, y, strict=True)
    ).encode()
    flat = [{**{k: x for k, x in row.items() if "=" not in k}, "text": "İ Ab aB", 'q"t': 'a "b", c'} for row in rows]
    words = [
        f"{int(label)} |c= {' '.join(k[2:] for k in row if '=' in k)} | "
        f"{' '.join(f'{k}:{x}' for k, x in row.items() if '=' not in k)} |text i ab:2\n"
        for row, label in zip(rows, y, strict=True)
    ]
    texts = {"text": ["text"], "missing": "ignore"}
    by_key = parsed(JSONLines(hashing=HOW, **texts), lines)
    assert by_key == parsed(VW(HOW), "".join(words).encode())
    memory = from_memory([(row, int(k)) for row, k in zip(nested, y, strict=True)], hasher=Numbering(HOW), **texts)
    assert by_key == named(*memory.batches())
    flat_lines = "".join(json.dumps({"label": int(k), **row}) + "\n" for row, k in zip(flat, y, strict=True)).encode()
    assert parsed(CSV(hashing=HOW, **texts), as_csv(flat, y).encode()) == parsed(
        JSONLines(hashing=HOW, **texts), flat_lines
    )
    pd = pytest.importorskip("pandas")
    frame = from_memory(pd.DataFrame(flat), y, hasher=Numbering(HOW), look=0, **texts)
    assert named(*frame.batches()) == parsed(JSONLines(hashing=HOW, **texts), flat_lines)


def test_characters_and_runs_of_words_have_their_names():
    form = JSONLines(hashing=HOW, text=["t"], ngrams=(1, 2), chars=(2, 3))
    (row,) = parsed(form, '{"label": 1, "t": "Übel, ab Übel"}\n'.encode())
    expected = ["t^übel", "t^ab", "t^übel ab", "t^ab übel"]
    text = "übel, ab übel"
    expected += [f"t~^{text[k : k + n]}" for n in (2, 3) for k in range(len(text) - n + 1)]
    assert {name for _, name, _ in row} == {*expected}


def test_dates_and_what_says_nothing_have_their_names():
    options = {"hashing": HOW, "dates": ["d"], "missing": "indicator"}
    table = b"label,d,x\n1,2024-05-17T13:05,NA\n0,,2\n"
    lines = b'{"label":1,"d":"2024-05-17T13:05","x":"NA"}\n{"label":0,"d":null,"x":2}\n'
    found = parsed(CSV(**options), table)
    parts = {"d.year=2024", "d.month=05", "d.day=17", "d.hour=13", "d.weekday=Fri", "x=?"}
    assert [{name for _, name, _ in row} for row in found] == [parts, {"d=?", "x"}]
    assert found == parsed(JSONLines(**options), lines)
    assert found == parsed(JSONLines(**options, columns=["d", "x"]), lines.replace(b'"d":null,', b""))


@pytest.mark.slow  # compiles every parser once more
def test_plain_lines_are_read_by_compiled_code_with_any_number_of_bits(monkeypatch):
    lines = "".join(json.dumps({"label": 1, "a": k, "b": "x", "c": k % 3}) + "\n" for k in range(300)).encode()
    monkeypatch.setattr(JSONLines, "_row", None)
    assert len(parsed(JSONLines(hashing=Hashing(bits=62)), lines)) == 300


def parsed(form, text):
    data = np.frombuffer(bytearray(text), np.uint8)
    return named(form.parse(data[form.header(data) :]))


def named(rows):
    ends, found = (
        rows.indptr.tolist(),
        [*zip(rows.indices.tolist(), rows.names.texts(), rows.values.tolist(), strict=True)],
    )
    return [sorted(found[start:stop]) for start, stop in itertools.pairwise(ends)]


def test_what_has_no_names_is_told_by_its_number_and_takes_the_name_of_its_next_sight(tmp_path):
    rows, y = rows_of(2)
    batch = batch_of(rows, y, Hashing(bits=20, exact=True))
    bare_rows = Batch.of(*plain_arrays(batch)).labelled(batch.y)
    expected, scores = learned(fresh(), batch)
    model, before = learned(fresh(), bare_rows.until(40))
    write(tmp_path / "model", model)
    assert read(tmp_path / "model").names is None
    model, after = learned(read(tmp_path / "model"), batch.after(40))
    np.testing.assert_array_equal(np.concatenate([before, after]), scores)
    assert 0 < len(kept_names(model)) <= 12
    assert kept_names(model).items() <= kept_names(expected).items()


def test_of_models_that_merge_a_number_is_that_of_the_first_ones_name():
    def of(*names):
        rows = [{name: 1.0} for name in names * 2]
        return learned(fresh(8, admit=1), batch_of(rows, [1, -1] * len(names), Hashing(bits=1, exact=True)))[0]

    numbers = {word: Hashing(bits=1).index(word) for word in WORDS[:60]}
    one, other, *_ = [word for word, number in numbers.items() if number == 0]
    both = of(one).merge(of(other))
    assert kept_names(both) == {0: one}
    alone = of(one)
    row = batch_of([{one: 1.0}, {other: 1.0}], [1, 1], Hashing(bits=1, exact=True))
    assert both.learner.scores(row)[1] == 0.0
    assert alone.learner.scores(row)[1] == 0.0


def test_names_of_features_that_gave_way_are_dropped():
    rows = [({f"name{k}" * 5: 1.0}, k % 2) for k in range(3000)]
    model = fresh(50, admit=1)
    for batch in from_memory(rows, hasher=Numbering(Hashing(bits=62)), rows_per_batch=100).batches():
        model, _ = model.learn(batch, TWO)
    names: KeptNames = model.learner.encoder.names
    assert len(names.there) == len(model.learner.encoder.used) <= 50
    assert len(names.text) < 200 * 50
    assert len(kept_names(model)) == len(names.there)


def test_rows_with_names_are_for_models_with_a_budget():
    rows = [({"a": 1.0, "b": 2.0}, 1), ({"c": 1.0}, 0)]
    for hashing in (Hashing(bits=1, exact=True), Hashing(bits=62)):
        with pytest.raises(InvalidInputError, match="need a model with max_features, but this model has none"):
            ts.AROW().fit_stream(from_memory(rows, hasher=Numbering(hashing)))


def test_estimators_show_names_and_can_be_looked_at():
    """A number for each of 2^62 features has no room: to those who look there is no such attribute."""
    rows = [({f"word{k % 7}": 1.0, f"once{k}": 1.0}, int(k % 7 < 3)) for k in range(300)]
    model = ts.AROW(max_features=20).fit_stream(from_memory(rows, hasher=Hashing(bits=62)))
    assert {f"word{k}" for k in range(7)} <= {*model.kept_names_.values()}
    assert "predict" in dir(model)
    assert not hasattr(model, "coef_")
    assert "AROW" in model._repr_html_()
    with pytest.raises(InvalidInputError, match=r"dense weights of .* features need"):
        _ = model.coef_
    with pytest.raises(AttributeError, match="They need max_features"):
        _ = ts.AROW().fit([[1.0], [2.0]], [0, 1]).kept_names_
