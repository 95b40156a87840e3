"""Tests of thinstream.tune."""
