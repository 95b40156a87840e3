"""Tests of thinstream.streams."""
