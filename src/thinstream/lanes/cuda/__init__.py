"""Lanes on a GPU: the engine's loop and its rules, compiled by numba-cuda, a thread per lane, with the CPU's bits."""
