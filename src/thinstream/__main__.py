"""The command ``thinstream``, also as ``python -m thinstream``."""

import sys


def main() -> None:
    """Run the command line of this process. Ctrl-C ends it quietly, even during the imports."""
    try:
        from thinstream.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
