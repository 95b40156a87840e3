"""Tests of models of more than two classes."""
