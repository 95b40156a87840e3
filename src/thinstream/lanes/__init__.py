"""Lanes: many models of one algorithm that learn from one stream in one pass, each as it would alone, bit for bit."""

from thinstream.lanes.lanes import Lanes

__all__ = ["Lanes"]
