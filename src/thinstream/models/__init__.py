"""Trained models as files: stored, exported, drawn."""
