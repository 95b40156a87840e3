"""Labels that come later: rows are scored now, kept under their ids, and learned when their labels come."""

from typing import TYPE_CHECKING, Any

from thinstream.errors import no_attribute
from thinstream.late_labels.store import RowStore, Status
from thinstream.late_labels.waiting import Labelled, Waiting

if TYPE_CHECKING:
    from thinstream.late_labels.join import LabelJoin

__all__ = ["LabelJoin", "Labelled", "RowStore", "Status", "Waiting"]


def __getattr__(name: str) -> Any:
    """`LabelJoin` on demand: the command line joins files without scikit-learn."""
    if name != "LabelJoin":
        raise no_attribute(__name__, name, __all__)
    from thinstream.late_labels.join import LabelJoin

    return LabelJoin
