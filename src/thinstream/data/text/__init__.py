"""Text parsers, which turn pieces of text into rows, and their common parts."""
