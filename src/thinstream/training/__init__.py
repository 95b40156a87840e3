"""Training on a stream: the run, its metrics, checkpoints, drift monitors and delayed labels."""
