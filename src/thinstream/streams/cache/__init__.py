"""The binary cache: an Arrow file that maps back without parsing."""
