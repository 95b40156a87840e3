"""Tests of the papers' experiments."""
