"""Tests of how rows are prepared."""
