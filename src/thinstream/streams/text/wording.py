r"""What a text is taken apart into: words and runs of them, runs of characters. The definition, in plain Python.

Words are runs of letters, digits and underscores (``\w+``), without those of a stop list. A feature is a word, or n
of them in a row with blanks between, in the namespace of the text's column. Runs of characters are those of the text
with a blank for all white space between its words; they are in a namespace of their own, ``column~``.
`tokens` does the same compiled.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from thinstream.errors import InvalidParameterError, listed

_WORD = re.compile(r"\w+")
#: What a column's name ends in where its features are runs of characters.
CHARS = "~"
#: The longest run.
LONGEST = 16
#: Stop lists that come along.
LISTS = ("english",)

Range = tuple[int, int]


@dataclass(frozen=True)
class Wording:
    """How texts are taken apart.

    Parameters
    ----------
    ngrams : (fewest, most) or None
        Words in a row that make a feature. None: one, or none where ``chars`` are given.
    chars : (fewest, most) or None
        Characters in a row that make a feature.
    lower : bool
        Whether in lower case.
    stop : words
        Those left out, before n-grams are made.

    Examples
    --------
    >>> Wording().features("Buy NOW, it's free_42!")
    [('', 'buy'), ('', 'now'), ('', 'it'), ('', 's'), ('', 'free_42')]
    >>> Wording(ngrams=(1, 2), stop=("the",)).features("The cat sat")
    [('', 'cat'), ('', 'sat'), ('', 'cat sat')]
    >>> Wording(chars=(2, 3)).features("a  bc")
    [('~', 'a '), ('~', 'a b'), ('~', ' b'), ('~', ' bc'), ('~', 'bc')]

    """

    ngrams: Range | None = None
    chars: Range | None = None
    lower: bool = True
    stop: Sequence[str] = ()

    @property
    def words(self) -> Range:
        """Words in a row that make a feature; (1, 0): none."""
        return self.ngrams or ((1, 0) if self.chars else (1, 1))

    @cached_property
    def left_out(self) -> frozenset[str]:
        """The words of the stop list, as texts have them."""
        return frozenset(word for entry in self.stop for word in _WORD.findall(self._cased(entry)))

    def features(self, text: str) -> list[tuple[str, str]]:
        """What a text has: (end of the namespace, name), in order."""
        text = self._cased(text)
        return [*(("", name) for name in self._words_of(text)), *((CHARS, name) for name in self._chars_of(text))]

    def _cased(self, text: str) -> str:
        return text.lower() if self.lower else text

    def _words_of(self, text: str) -> Iterator[str]:
        low, high = self.words
        words = [word for word in _WORD.findall(text) if word not in self.left_out] if high else []
        for end in range(1, len(words) + 1):
            for n in range(low, min(high, end) + 1):
                yield " ".join(words[end - n : end])

    def _chars_of(self, text: str) -> Iterator[str]:
        if self.chars is None:
            return
        low, high = self.chars
        text = " ".join(text.split())
        for start in range(len(text)):
            for n in range(low, min(high, len(text) - start) + 1):
                yield text[start : start + n]


def parse_range(text: str) -> Range:
    """From a text of the command line.

    >>> parse_range("1-2"), parse_range("3")
    ((1, 2), (3, 3))
    """
    low, _, high = text.replace(",", "-").partition("-")
    try:
        return int(low), int(high or low)
    except ValueError:
        raise InvalidParameterError(f"a range must be a number or two, LOW-HIGH, got {text!r}") from None


def as_range(name: str, given: Any) -> Range | None:
    """How many in a row an option asks for."""
    if given is None:
        return None
    found = parse_range(given) if isinstance(given, str) else (given, given) if isinstance(given, int) else tuple(given)
    whole = len(found) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in found)
    if not whole or not 1 <= found[0] <= found[1] <= LONGEST:
        raise InvalidParameterError(f"{name} must be LOW-HIGH, 1 ≤ LOW ≤ HIGH ≤ {LONGEST}, got {given!r}")
    return found[0], found[1]


def as_stop_list(given: Any) -> tuple[str, ...]:
    """The words of a stop list: those given, of a list that comes along, of a file, or between commas.

    >>> as_stop_list("the,a"), as_stop_list(["an"]), "the" in as_stop_list("english")
    (('a', 'the'), ('an',), True)
    """
    if isinstance(given, str):
        if given in LISTS:
            given = files("thinstream.streams.text").joinpath(f"{given}.txt").read_text("utf-8").split()
        elif "," not in given:
            if not Path(given).is_file():
                raise InvalidParameterError(
                    f"stop must be {listed(LISTS)}, a file of words, or words between commas (of one: 'word,'), "
                    f"got {given!r}, which is no file"
                )
            given = Path(given).read_text("utf-8").split()
        else:
            given = [word.strip() for word in given.split(",") if word.strip()]
    if not all(isinstance(word, str) for word in given):
        raise InvalidParameterError(f"stop must be words, got {given!r}")
    return tuple(sorted(set(given)))
