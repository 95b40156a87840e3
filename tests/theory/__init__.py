"""thinstream.theory."""
