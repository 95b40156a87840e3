"""Values of reading options from texts of the command line."""

from typing import Any

from thinstream.errors import InvalidParameterError, listed

#: What may stand between cells.
DELIMITERS = (",", "\t", ";", "|")


def parse_names(text: str) -> tuple[str, ...]:
    """Names of columns.

    >>> parse_names("city, zip")
    ('city', 'zip')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_classes(text: str) -> tuple[Any, ...]:
    """Labels, numbers where all are.

    >>> parse_classes("ham,spam"), parse_classes("0,1.0,2.5")
    (('ham', 'spam'), (0, 1, 2.5))
    """
    parts = [part.strip() for part in text.split(",")]
    labels: list[Any] = parts
    try:
        numbers = [float(part) for part in parts]
        labels = [int(number) if number.is_integer() else number for number in numbers]
    except (ValueError, OverflowError):
        pass
    if len(labels) < 2 or not all(parts) or len(set(labels)) < len(labels):
        raise InvalidParameterError(f"--classes must be two labels, NEG,POS, or more, got {text!r}")
    return tuple(labels)


def parse_delimiter(text: str) -> str:
    r"""One character; a tab may be spelled.

    >>> parse_delimiter(";"), parse_delimiter("tab"), parse_delimiter("\\t")
    (';', '\t', '\t')
    """
    found = "\t" if text in ("tab", "\\t") else text
    if found not in DELIMITERS:
        raise InvalidParameterError(f"--delimiter must be {listed(DELIMITERS)}, got {text!r}")
    return found


_ZERO_BASED: dict[str, bool | str] = {"no": False, "yes": True, "auto": "auto"}


def parse_zero_based(text: str) -> bool | str:
    """False, True or "auto".

    >>> parse_zero_based("yes")
    True
    """
    if text not in _ZERO_BASED:
        raise InvalidParameterError(f"--zero-based must be {listed(_ZERO_BASED)}, got {text!r}")
    return _ZERO_BASED[text]
