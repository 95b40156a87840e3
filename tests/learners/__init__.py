"""Tests of thinstream.learners."""
