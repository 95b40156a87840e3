"""Mode features (experimental): each worker has a part of the coordinates; scores are summed over the workers."""
