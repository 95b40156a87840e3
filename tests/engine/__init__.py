"""Tests of thinstream.engine."""
