"""The version of the package: a module of its own, so that others can import it without the rest."""

__version__ = "0.1.0"
