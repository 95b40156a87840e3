"""Tests of blending."""
