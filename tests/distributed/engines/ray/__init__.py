"""Workers on Ray."""
