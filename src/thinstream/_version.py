"""The version of the package: a separate module, so that others can import it without the rest."""

__version__ = "0.1.0"
