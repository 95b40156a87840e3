"""thinstream.stability."""
