"""Streams to try things on, and where real data sets are found."""

from typing import TYPE_CHECKING, Any

from thinstream.datasets.catalogue import Dataset, Published, catalogue, dataset, find, folders, present
from thinstream.datasets.download import Checked, download, verify
from thinstream.errors import no_attribute

if TYPE_CHECKING:
    from thinstream.datasets.loading import load
    from thinstream.datasets.synthetic import LabelledRows, sparse_gaussian, zipf_text

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


_LATER = {"LabelledRows": "synthetic", "load": "loading", "sparse_gaussian": "synthetic", "zipf_text": "synthetic"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise no_attribute(__name__, name, __all__)
    import importlib  # on demand: finding a file must not wait for scipy

    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
