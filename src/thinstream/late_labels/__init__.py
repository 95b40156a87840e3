"""Labels that come later: rows are scored now, kept under their ids, and learned when their labels come."""

from thinstream.late_labels.join import LabelJoin, Labelled
from thinstream.late_labels.store import RowStore, Status

__all__ = ["LabelJoin", "Labelled", "RowStore", "Status"]
