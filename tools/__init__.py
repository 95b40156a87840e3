"""Tools for those who work on thinstream."""
