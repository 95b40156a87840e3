"""``python -m thinstream`` is the command ``thinstream``."""

from thinstream.cli.app import main

if __name__ == "__main__":
    main()
