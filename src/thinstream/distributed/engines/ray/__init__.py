"""Workers on Ray, and its Datasets as sources."""
