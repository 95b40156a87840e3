"""Batch methods without scikit-learn: they take all examples at once, or go over them again and again."""
