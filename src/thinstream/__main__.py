"""``python -m thinstream`` is the command ``thinstream``."""

from thinstream.cli.main import main

if __name__ == "__main__":
    main()
