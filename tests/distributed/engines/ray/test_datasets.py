"""Ray Datasets as sources: the rows of a file, in its order, cut anywhere, read again from anywhere."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest

from thinstream.batch import Batch, Position
from thinstream.data.stream import Stream, batches_from
from thinstream.distributed.engines.ray import RayDatasetSource
from thinstream.distributed.sources import source_of
from thinstream.errors import InvalidInputError, InvalidParameterError

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),  # Ray's warnings about itself
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]
ROWS = 103


@pytest.fixture(scope="module")
def data(ray_cluster: str) -> Iterator[Any]:
    import ray
    import ray.data

    ray.init(ray_cluster, _node_ip_address="127.0.0.1", log_to_driver=False, logging_level="ERROR")
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield ray.data
    finally:
        ray.shutdown()


def rows() -> list[dict[str, Any]]:
    draw = np.random.default_rng(3)
    made = []
    for i in range(ROWS):
        count = int(draw.integers(0, 5))
        indices = sorted(draw.choice(50, count, replace=False).tolist())
        made.append({"label": i % 3 == 0, "indices": indices, "values": draw.normal(size=count).tolist()})
    return made


def flat(stream: Stream, start: Position | None = None) -> tuple[list[int], list[tuple[list[int], list[float]]]]:
    labels, result = [], []
    batches: Iterator[Batch] = (
        stream.batches() if start is None else (batch for _, batch in batches_from(stream, start))
    )
    for batch in batches:
        assert batch.y is not None
        labels += batch.y.tolist()
        for a, b in zip(batch.indptr[:-1], batch.indptr[1:]):
            result.append((batch.indices[a:b].tolist(), batch.values[a:b].tolist()))
    return labels, result


def test_list_columns_are_in_order_for_any_blocks(data: Any) -> None:
    expected = (
        [1 if row["label"] else -1 for row in rows()],
        [(row["indices"], np.float32(row["values"]).tolist()) for row in rows()],
    )
    for blocks in (1, 7):
        source = source_of(data.from_items(rows(), override_num_blocks=blocks))
        assert isinstance(source, RayDatasetSource)
        for workers in (1, 2, 5):
            shards = source.shards(workers)
            parts = [flat(shard.open()) for shard in shards]
            assert tuple(list(chain.from_iterable(part)) for part in zip(*parts)) == expected
            assert max(len(a) for a, _ in parts) - min(len(a) for a, _ in parts) <= 1


def test_a_stream_resumes_from_any_position_with_other_blocks(data: Any) -> None:
    one, many = (RayDatasetSource(data.from_items(rows(), override_num_blocks=blocks)) for blocks in (1, 7))
    stream, other = (source.shards(2)[1].open() for source in (one, many))
    labels, result = flat(stream)
    for position in [batch.position for batch in other.batches()]:
        assert position is not None
        for skip in (0, 1):
            start = position._replace(skip=skip)
            if position.row + skip < len(labels):
                assert flat(stream, start) == (labels[position.row + skip :], result[position.row + skip :])
    assert one.fingerprint() == many.fingerprint()
    assert one.fingerprint() != RayDatasetSource(data.from_items(rows()[::-1], override_num_blocks=1)).fingerprint()


def test_columns_by_name_are_hashed_as_in_files(data: Any, tmp_path: Any) -> None:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet

    from thinstream.data.opening import open_stream

    frame = pd.DataFrame({"age": [1.0, 2.0, 0.0], "city": ["Oslo", "Rome", None], "y": ["no", "yes", "no"]})
    pa.parquet.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet")
    options = {"label": "y", "classes": ("no", "yes"), "bits": 18, "normalize": "l2"}
    file = open_stream(tmp_path / "rows.parquet", missing="as-is", **options)  # nulls are no features here
    source = RayDatasetSource(data.from_pandas(frame), **options)
    assert flat(source.shards(1)[0].open()) == flat(file)
    assert (source.feature_space, source.classes, source.dtype) == (file.feature_space, file.classes, file.dtype)


def test_arrays_are_lists(data: Any) -> None:
    plain = data.from_items(rows(), override_num_blocks=2)

    def as_arrays(batch: dict[str, Any]) -> dict[str, Any]:
        def ragged(name: str, kind: type) -> Any:
            made = np.empty(len(batch[name]), dtype=object)
            made[:] = [np.asarray(item, dtype=kind) for item in batch[name]]
            return made

        return {**batch, "indices": ragged("indices", int), "values": ragged("values", float)}

    ragged = RayDatasetSource(plain.repartition(1).map_batches(as_arrays, batch_format="numpy"))
    for one, other in zip(ragged.shards(3), RayDatasetSource(plain).shards(3)):
        assert flat(one.open()) == flat(other.open())
    square = data.from_numpy([np.arange(6).reshape(2, 3)]).rename_columns({"data": "indices"})
    square = square.map_batches(lambda batch: {**batch, "values": batch["indices"] + 1.0, "label": np.array([1, -1])})
    assert flat(RayDatasetSource(square).shards(1)[0].open()) == (
        [1, -1],
        [([0, 1, 2], [1.0, 2.0, 3.0]), ([3, 4, 5], [4.0, 5.0, 6.0])],
    )


def test_more_workers_than_rows_and_no_rows(data: Any) -> None:
    source = RayDatasetSource(data.from_items(rows()[:2]))
    assert [len(flat(shard.open())[0]) for shard in source.shards(3)] == [0, 1, 1]
    with pytest.raises(InvalidInputError, match="the Ray Dataset has no rows"):
        RayDatasetSource(data.from_items(rows()).limit(0))


def test_options_are_checked(data: Any) -> None:
    dataset = data.from_items(rows()[:2])
    with pytest.raises(
        InvalidParameterError,
        match=r"the options for .* must be 'label', 'weight', .* "
        r"got 'zero_based'",
    ):
        source_of(dataset, zero_based=True)
    with pytest.raises(InvalidParameterError, match="normalize must be None or 'l2', got 'l1'"):
        source_of(dataset, normalize="l1")
    with pytest.raises(InvalidInputError, match="the dataset has no column 'y'"):
        next(iter(RayDatasetSource(dataset, label="y").shards(1)[0].open().batches()))
    with pytest.raises(InvalidInputError, match=r"a source must be files .*, got DataContext"):
        source_of(dataset.context, "ray")
