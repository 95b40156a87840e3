"""Tests of thinstream.training."""
