"""Where the command begins: an interrupt during the imports is no error either."""

import sys


def main() -> None:
    """Runs the command line of this process."""
    try:
        from thinstream.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
