"""Learners that need a batch of rows, or all of them, at once. No scikit-learn here.

Each algorithm is a file: its parameters as a NamedTuple, and the learner that runs it. scipy is imported when it runs.
"""
