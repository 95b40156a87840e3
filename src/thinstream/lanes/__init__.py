"""Models that learn: one at a time, or many side by side in one pass."""
