"""Tests of thinstream.data.brokers."""
