"""Which models `Auto` should blend: an experiment on training rows alone.

Every candidate learns the training rows of every set once, and its scores before learning are kept; a portfolio then
costs no more than its head. Run it with ``python -m benchmarks.portfolio``.
"""
