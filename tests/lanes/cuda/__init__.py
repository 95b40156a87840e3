"""Tests of `thinstream.lanes.cuda`."""
