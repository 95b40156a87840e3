"""Tests of the docs, of what is generated, and of the examples."""
