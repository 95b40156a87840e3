"""Tests of thinstream.datasets."""
