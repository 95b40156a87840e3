"""Tests of thinning."""
