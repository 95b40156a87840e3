"""Tests of budgets of features."""
