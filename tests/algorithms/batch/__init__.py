"""Learners that need a batch of rows, or all of them, at once."""
