"""Export formats, one file each, named after the format: ``EXTENSIONS`` and a function ``write(model, file, name)``."""
