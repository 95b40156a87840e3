"""Tests of thinstream."""
