"""Workers on Spark, its DataFrames as sources, and its endless streams."""
