"""Mode features."""
