"""Tests of thinstream.tuning."""
