"""How good a model is while it learns: metrics of a stream's scores, each taken before its row was learned from."""

from thinstream.evaluate.progressive import Progress
from thinstream.evaluate.report import Report, Tradeoff
from thinstream.evaluate.several import ClassProgress, ClassReport

__all__ = ["ClassProgress", "ClassReport", "Progress", "Report", "Tradeoff"]
