"""Texts taken apart as the specification says it (§19), importing nothing of what it checks."""

import re


def text_features(column, text, ngrams=None, chars=None, lower=True, stop=()):
    """(namespace, name, value) of a text, one after another."""
    if lower:
        text, stop = text.lower(), [word.lower() for word in stop]
    if ngrams is None and chars is None:
        ngrams = (1, 1)
    unwanted = {part for word in stop for part in re.findall(r"\w+", word)}
    words = [word for word in re.findall(r"\w+", text) if word not in unwanted]
    for last in range(len(words)):
        for size in range(ngrams[0], ngrams[1] + 1) if ngrams else ():
            if last - size + 1 >= 0:
                yield column, " ".join(words[last - size + 1 : last + 1]), 1.0
    letters = re.sub(r"\s+", " ", text).strip(" ")
    for first in range(len(letters)):
        for size in range(chars[0], chars[1] + 1) if chars else ():
            if first + size <= len(letters):
                yield column + "~", letters[first : first + size], 1.0


def once(features, number):
    """Features that count once: the first of each number."""
    kept = {}
    for feature in features:
        kept.setdefault(number(feature), feature)
    return list(kept.values())


class PlainRoad:
    """JSON Lines with all lines left to Python."""

    def __init__(self, form):
        self.form = form

    def __getattr__(self, name):
        return getattr(self.form, name)

    def parse(self, text):
        from unittest.mock import patch

        from thinstream.data.text import jsonl

        with patch.object(jsonl, "parse", _left_to_python):
            return self.form.parse(text)


def _left_to_python(whole, size, keys, columns, labels, meaning, out, features, state):
    from thinstream.data.cells import AT_BYTE, FINE
    from thinstream.data.text.jsonl import LEFT

    while state[AT_BYTE] < size:
        begin = int(state[AT_BYTE])
        end = bytes(whole[begin:size]).find(b"\n")
        end = size if end < 0 else begin + end + 1
        if bytes(whole[begin:end]).strip(b" \t\r\n"):
            return LEFT, begin, end
        state[AT_BYTE] = end
    return FINE, size, size


def json_disagreement(parsed, text, form):
    """What differs between the two roads of JSON Lines: none of what they give may."""
    from dataclasses import replace

    import numpy as np

    other = PlainRoad(replace(form)).parse(np.frombuffer(bytearray(text), np.uint8))
    for name, one, two in zip(parsed._fields, parsed, other):
        same = one.tobytes() == two.tobytes() if isinstance(one, np.ndarray) else one == two
        if not same:
            return f"{name}: {one} and {two}"
    return None
