"""Workers on Spark."""
