"""How good a model is while it learns: metrics of a stream's scores, each taken before its row was learned from."""

from thinstream.evaluate.progressive import Progress
from thinstream.evaluate.report import Report, Tradeoff

__all__ = ["Progress", "Report", "Tradeoff"]
