"""Tests of thinstream.streams.brokers."""
