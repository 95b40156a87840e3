"""Where workers run: processes of this machine, Ray or Spark, each behind the same `Launcher`."""
