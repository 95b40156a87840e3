"""Tables, matrices and dicts as streams."""
