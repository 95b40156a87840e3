"""Tests of thinstream.models."""
