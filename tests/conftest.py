"""Settings of the whole suite."""

from hypothesis import settings

settings.register_profile("fast", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("slow", max_examples=2000, deadline=None)
settings.load_profile("fast")
