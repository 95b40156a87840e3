"""Tests of thinstream.lanes."""
