"""Text formats: from a piece of text to rows."""
