"""Tests of thinstream.jit."""
