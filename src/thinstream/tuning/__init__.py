"""Tuning and comparing in one pass: studies of many models on one stream."""
