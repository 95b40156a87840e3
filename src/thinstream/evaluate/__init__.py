"""How good a model is on a stream of labelled rows: mistakes, losses, AUC and more, counted as the rows come by.

>>> import numpy as np
>>> progress = Progress()
>>> progress.update(np.array([-1.0, 0.5, 2.0]), np.array([-1, -1, 1], np.int8))
>>> report = progress.report(Tradeoff(c_p=0.9, c_n=0.1))
>>> report.rows, report.sensitivity, report.specificity, report.cost
(3, 1.0, 0.5, 0.1)
"""

from thinstream.evaluate.progress import Progress
from thinstream.evaluate.report import Report, Tradeoff

__all__ = ["Progress", "Report", "Tradeoff"]
