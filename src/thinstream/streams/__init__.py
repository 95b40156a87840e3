"""Examples from files, pipes and memory, as batches with a position from which to go on."""
