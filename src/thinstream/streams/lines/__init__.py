"""Files of lines in another order, or in parts."""
