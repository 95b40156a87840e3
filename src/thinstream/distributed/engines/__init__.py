"""Engines that run workers: processes of this machine, Ray and Spark, each with the interface of `Launcher`."""
