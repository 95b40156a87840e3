"""Names of hashed features that columns tell, where none were kept: numbers, parts of dates, cells that say nothing."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thinstream.models.model import Model

_YEARS = range(1970, 2100)
_MOST = 10_000  # columns


def known_names(model: "Model") -> dict[int, str]:
    """By number; categories and words, which no column tells, are not among them."""
    from thinstream.streams.options import KEYS
    from thinstream.streams.text.dates import WEEKDAYS
    from thinstream.streams.text.hashing import Hashing

    if "hashing" not in model.feature_space:
        return {}
    how, reading = Hashing.from_dict(model.feature_space["hashing"]), model.reading
    parts = {
        "year": [str(year) for year in _YEARS],
        "month": [f"{month:02}" for month in range(1, 13)],
        "day": [f"{day:02}" for day in range(1, 32)],
        "hour": [f"{hour:02}" for hour in range(24)],
        "weekday": [*WEEKDAYS],
    }
    found: dict[int, str] = {}
    columns = [*(reading.get("columns") or reading.get(KEYS, ()))][:_MOST]
    for name in columns:
        if name in reading.get("dates", ()):
            for part, texts in parts.items():
                found |= {how.index(text, f"{name}.{part}="): f"{name}.{part}={text}" for text in texts}
        elif name not in model.feature_space.get("text", ()):
            found[how.index(name)] = name
        found[how.index("?", f"{name}=")] = f"{name}=?"
    return found
