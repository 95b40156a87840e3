"""Tests of thinstream.data."""
