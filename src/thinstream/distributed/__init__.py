"""Learning on many machines: Ray or Spark place the workers, restart them and move the data."""
