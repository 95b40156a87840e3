"""Tests of thinstream.estimators."""
