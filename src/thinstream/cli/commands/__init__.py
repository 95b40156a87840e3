"""One module per command, found by listing this folder: see `thinstream.cli.app`."""
