"""The one loop that runs every coordinate-wise rule, and the small functions rules are written with."""
