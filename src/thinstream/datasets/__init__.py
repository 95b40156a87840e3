"""Datasets: generated streams, and the catalogue of real datasets and their files."""

from typing import TYPE_CHECKING, Any

from thinstream.datasets.catalogue import (
    Checked,
    Dataset,
    Published,
    catalogue,
    dataset,
    download,
    find,
    folders,
    present,
    verify,
)
from thinstream.errors import no_attribute

if TYPE_CHECKING:
    from thinstream.datasets.loading import LabelledRows, load, sparse_gaussian, zipf_text

__all__ = [
    "Checked",
    "Dataset",
    "LabelledRows",
    "Published",
    "catalogue",
    "dataset",
    "download",
    "find",
    "folders",
    "load",
    "present",
    "sparse_gaussian",
    "verify",
    "zipf_text",
]


#: Names in `loading`, which imports scipy.
_LATER = ("LabelledRows", "load", "sparse_gaussian", "zipf_text")


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise no_attribute(__name__, name, __all__)
    import importlib  # on demand, because finding a file does not need scipy

    return getattr(importlib.import_module(f"{__name__}.loading"), name)
