"""Matrices, frames, Arrow tables and dicts as streams."""
