"""Fitted models: what they hold, how they learn, blend, merge and shrink, and how they are saved and loaded."""
