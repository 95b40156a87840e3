"""What the examples share: two options, datasets with rows of unit length, and made-up rows for missing datasets."""

import argparse
import sys

from sklearn.preprocessing import normalize

from thinstream.datasets import load
from thinstream.errors import MissingDataError, ThinstreamError


def real_or_made_up(read, make):
    """What ``read()`` finds of a real data set, or what ``make()`` makes up in its place, which is said."""
    try:
        return read()
    except MissingDataError as error:
        print(f"{error}\n\nMade-up rows stand in for it: the numbers below are not those of the real data.\n")
        return make()


def load_unit_rows(name, split=None):
    """Load a dataset, or a part of it, and scale its rows to unit length."""
    X, y = load(name, split)
    return normalize(X), y


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
