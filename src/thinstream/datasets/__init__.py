"""Streams to try things on, and where real data sets are found."""

from typing import TYPE_CHECKING, Any

from thinstream.datasets.catalogue import Dataset, Published, catalogue, dataset
from thinstream.datasets.download import Checked, download, verify
from thinstream.datasets.finding import find, folders, present

if TYPE_CHECKING:
    from thinstream.datasets.synthetic import Stream, sparse_gaussian, zipf_text

__all__ = [
    "Checked",
    "Dataset",
    "Published",
    "Stream",
    "catalogue",
    "dataset",
    "download",
    "find",
    "folders",
    "present",
    "sparse_gaussian",
    "verify",
    "zipf_text",
]


def __getattr__(name: str) -> Any:
    if name in ("Stream", "sparse_gaussian", "zipf_text"):  # finding a file must not wait for scipy
        from thinstream.datasets import synthetic

        return getattr(synthetic, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
