"""Models as files, exported and drawn: safetensors, the same bytes for the same model, replaced atomically."""

from thinstream.models.file import read, write
from thinstream.models.model import Model, Names

__all__ = ["Model", "Names", "read", "write"]
