"""thinstream.diagnostics."""
