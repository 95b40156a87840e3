"""Blending: models that learn the same stream, and a head that learns what their scores are worth together."""

from thinstream.blend.head import Head

__all__ = ["Head"]
