"""Mode examples."""
