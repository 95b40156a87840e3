"""Other tools that take models of ours."""
