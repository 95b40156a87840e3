"""Tests of thinstream.evaluate."""
