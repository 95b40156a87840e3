"""Learning on several workers."""
