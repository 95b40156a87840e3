"""Parsers of text, which turn pieces of it into rows, and what they share."""
