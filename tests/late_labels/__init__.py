"""Tests of thinstream.late_labels."""
