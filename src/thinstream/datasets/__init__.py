"""Streams to try things on, and where real data sets are found."""

from thinstream.datasets.synthetic import Stream, sparse_gaussian, zipf_text

__all__ = ["Stream", "sparse_gaussian", "zipf_text"]
