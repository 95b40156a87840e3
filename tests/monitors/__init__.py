"""Tests of the monitors of drift."""
