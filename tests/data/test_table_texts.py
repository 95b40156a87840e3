"""Texts of tables give what those of JSON Lines do."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinstream as ts
from tests.data.formats import as_text
from tests.data.test_table_columns import rows_of
from thinstream.data.in_memory import from_memory
from thinstream.data.tables.arrow import ArrowFiles
from thinstream.data.text.hashing import Hashing, Numbering
from thinstream.data.text.jsonl import JSONLines
from thinstream.errors import InvalidInputError, InvalidParameterError

texts = st.none() | st.text("aAbÉéİσΣ 1_,\n", max_size=9)
records = st.lists(
    st.fixed_dictionaries({"n": st.integers(0, 2).map(float), "one": texts, "two": texts}), min_size=1, max_size=6
)
wordings = st.sampled_from(
    [{}, {"ngrams": (1, 2), "stop": ("a",)}, {"chars": (2, 3), "lower": False}, {"ngrams": (1, 1), "binary": True}]
)


@given(records, wordings, st.sampled_from([Hashing(bits=22), Hashing(bits=3, signed=True)]))
def test_agreement_with_json_lines(tmp_path_factory, rows, wording, hashing):
    if "binary" in wording:  # of several on one number the first counts, and keys come in another order
        hashing = Hashing(bits=22)
    form = JSONLines(label=None, text=["one", "two"], hashing=hashing, **wording)
    parsed = form.parse(as_text("".join(json.dumps(row) + "\n" for row in rows).encode()))
    pairs = zip(parsed.indptr[:-1], parsed.indptr[1:])
    wanted = [dict(zip(parsed.indices[a:b].tolist(), parsed.values[a:b].tolist())) for a, b in pairs]
    more = {"hasher": Numbering(hashing), "text": ("one", "two"), "missing": "as-is", **wording}
    kinds = {"n": pa.float64(), "one": pa.string(), "two": pa.large_string()}
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})
    path = tmp_path_factory.mktemp("texts") / "rows.parquet"
    pa.parquet.write_table(table, path)
    for rows_per_batch in (1, 4, 100):
        assert rows_of(ArrowFiles(path, label=None, rows_per_batch=rows_per_batch, **more)) == wanted
    assert rows_of(from_memory(pl.from_arrow(table), **more)) == wanted
    assert rows_of(from_memory(table.to_pandas(), **more)) == wanted
    assert rows_of(from_memory(rows, **more)) == wanted
    assert rows_of(from_memory(rows, rows_per_batch=2, **more)) == wanted


def test_a_model_of_parquet_takes_texts(tmp_path):
    table = pa.table({"label": ["ham", "spam"] * 20, "body": ["see you at noon", "free offer"] * 20})
    pa.parquet.write_table(table, tmp_path / "mail.parquet")
    stream = ts.open_stream(tmp_path / "mail.parquet", text=("body",), ngrams=(1, 2), bits=16)
    model = ts.AROW().fit_stream(stream)
    assert model.predict(["an offer, free", "noon"]).tolist() == ["spam", "ham"]
    assert model.predict([{"body": "free"}]).tolist() == ["spam"]
    (tmp_path / "mail.csv").write_text("body\nfree offer\n")
    [found] = model.predict_stream(model.open_stream(tmp_path / "mail.csv", labels=False))
    assert found.tolist() == ["spam"]
    rows = [({"body": ["free", "offer"]}, "spam"), ({"body": None}, "ham")]
    other = from_memory(rows, hasher=Numbering(Hashing(bits=16)), text=("body",), ngrams=(1, 2))
    assert other.feature_space == stream.feature_space


def test_what_is_refused(tmp_path):
    frame = pd.DataFrame({"a": ["x", 3], "b": [1.0, 2.0]})
    with pytest.raises(
        InvalidInputError, match=r"'a' is declared as text, so a cell must be a string, got 3\.0 at row 1"
    ):
        list(from_memory(frame, hasher=Numbering(), text=("a",)).batches())
    with pytest.raises(InvalidInputError, match="there is no column 'aa'; did you mean 'a'"):
        from_memory(frame, hasher=Numbering(), text=("aa",))
    with pytest.raises(
        InvalidInputError, match=r"'a' is declared as text, so a cell must be a string, got 3\.0 at row 1"
    ):
        list(from_memory([{"a": "x"}, {"a": 3}], hasher=Numbering(), text=("a",)).batches())
    with pytest.raises(InvalidParameterError, match="text needs named features: pass hasher=Numbering"):
        from_memory(np.eye(2), text=("a",))
    pa.parquet.write_table(pa.table({"label": [0, 1], "a": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(
        InvalidInputError, match=r"'a' is declared as text, so a cell must be a string, got 1\.0 at row 0"
    ):
        list(ts.open_stream(tmp_path / "a.parquet", text=("a",)).batches())
