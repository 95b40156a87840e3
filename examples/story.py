"""What the examples have in common: two options, and rows made up in place of data that are not here."""

import argparse
import sys

from thinstream.errors import MissingDataError, ThinstreamError


def real_or_made_up(read, make):
    """What ``read()`` finds of a real data set, or what ``make()`` makes up in its place, which is said."""
    try:
        return read()
    except MissingDataError as error:
        print(f"{error}\n\nMade-up rows stand in for it: the numbers below are not those of the real data.\n")
        return make()


def _rows(text):
    if int(text) < 100:
        raise argparse.ArgumentTypeError(f"at least 100 are needed for a story, got {text}")
    return int(text)


def tell(story, text, out):
    """Runs ``story(rows, out)`` with the options of the command line."""
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    parser.add_argument("--rows", type=_rows, default=None, help="of the data set, 100 or more (default: all)")
    parser.add_argument("--out", default=out, help="the picture (default: %(default)s)")
    options = parser.parse_args()
    try:
        story(options.rows, options.out)
    except ThinstreamError as error:
        sys.exit(str(error))
    print(f"\nThe picture is in {options.out}.")
