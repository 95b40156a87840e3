"""Monitors of drift: told which predictions were wrong, they say where the error has risen.

A stream's progressive errors (each row predicted before it is learned) are 0 or 1 a row. Each monitor is one file, with
its paper on top, keeps constant memory (ADWIN: logarithmic), and gives the same changes however a stream is cut.
"""

from thinstream.monitors.adwin import ADWIN
from thinstream.monitors.ddm import DDM
from thinstream.monitors.monitor import Change, Monitor
from thinstream.monitors.page_hinkley import PageHinkley

#: By the name of the command line's ``--monitor``.
MONITORS: dict[str, type[Monitor]] = {"adwin": ADWIN, "ddm": DDM, "page-hinkley": PageHinkley}

__all__ = ["ADWIN", "DDM", "MONITORS", "Change", "Monitor", "PageHinkley"]
