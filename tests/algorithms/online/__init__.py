"""Each algorithm against a naive twin written from its paper."""
