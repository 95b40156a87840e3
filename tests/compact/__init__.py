"""Learners that keep state for the features that occur."""
