"""Dates of ISO 8601 as the parts that are features."""

import numpy as np

from thinstream.streams.text.csv_cells import AT, TIME, date_at

#: Parts of a date, each a category of its own.
PARTS = ("year", "month", "day", "hour", "weekday")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def date_parts(text: str) -> dict[str, str] | None:
    """What a date, or a time, has of each part; None of what is none.

    >>> date_parts("2024-05-17T13:05")
    {'year': '2024', 'month': '05', 'day': '17', 'hour': '13', 'weekday': 'Fri'}
    >>> date_parts("17.05.2024")
    """
    bare = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    kind, day = date_at(bare, 0, len(bare))
    if not kind:
        return None
    found = dict(zip(PARTS, [*(text[low:high] for low, high in AT.tolist()), WEEKDAYS[day]], strict=True))
    if kind != TIME:
        del found["hour"]
    return found
