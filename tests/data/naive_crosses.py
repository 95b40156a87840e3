"""Crosses by the definition, and what fuzzing compares with: rows read and crossed naively."""

import json
import math
import re
from itertools import product

from tests.data.formats import hashed, rows_of


def readable(space, name):
    return f"{space}^{name}" if space and not space.endswith("=") else space + name


def column_of(space, name):
    """Of a feature of CSV or JSON Lines."""
    if space:
        return space[:-1] if space.endswith("=") else space
    return re.sub(r"\[\d+\]$", "", name)


def meant(column, name):
    return column == name or column.startswith((f"{name}.", f"{name}["))


def crossed(features, crosses, column=column_of, meant=meant):
    """Features (namespace, name, value) of a row with its crosses behind them."""
    features, found = list(features), []
    for cross in sorted(map(tuple, crosses)):
        groups = [[k for k, f in enumerate(features) if meant(column(*f[:2]), name)] for name in cross]
        for parts in product(*groups):
            pairs = [(a, b) for b in range(len(cross)) for a in range(b) if cross[a] == cross[b]]
            if all(parts[a] < parts[b] for a, b in pairs):
                value = math.prod(features[k][2] for k in parts)
                found.append(("", " × ".join(readable(*features[k][:2]) for k in parts), value))
    return features + found


def letter(column, name):
    """What a name means among the namespaces of VW."""
    return meant(column, name) or (len(name) == 1 and column.startswith(name))


def vw_features(line):
    """Features of a line that is fine."""
    for part in line[line.index("|") + 1 :].split("|"):
        head, *words = re.split(r"[ \t]+", part.rstrip(" \t"))
        space, colon, scale = head.partition(":")
        for word in words:
            name, given, value = word.partition(":")
            value = (float(value) if given else 1.0) * (float(scale) if colon else 1.0)
            if value:
                yield space, name, value


def vw_disagreement(parsed, text, form):
    """What differs between rows and a naive reading of the lines they are from."""
    lines = [line.removesuffix(b"\r").decode("utf-8", "surrogateescape") for line in text.split(b"\n")]
    lines = [line for line in lines if line.strip(" \t")]
    rows = (crossed(vw_features(line), form.cross, lambda space, _: space, letter) for line in lines)
    return _difference(parsed, rows, form, "surrogateescape")


def json_features(path, value):
    """Features of what an object has at a path; the key "text" is taken apart into words."""
    if isinstance(value, dict):
        return [f for key, inner in value.items() for f in json_features(f"{path}.{key}", inner)]
    if path == "text":
        texts = value if isinstance(value, list) else [value or ""]
        return [(path, word, 1.0) for part in texts for word in re.findall(r"\w+", part.lower())]
    if isinstance(value, list):
        return [f for k, part in enumerate(value) for f in _json_scalar(path, part, f"{path}[{k}]")]
    return _json_scalar(path, value, path)


def _json_scalar(path, value, name):
    if isinstance(value, str):
        return [(f"{path}=", value, 1.0)]
    return [("", name, float(value))] if value else []


def json_disagreement(parsed, text, form):
    """The same of JSON Lines."""
    lines = (json.loads(line, parse_int=float) for line in text.split(b"\n") if line.strip(b" \t\r"))
    rows = (
        crossed([f for key, value in line.items() if key not in others for f in json_features(key, value)], form.cross)
        for line in lines
        for others in [(form.label, form.weight)]
    )
    return _difference(parsed, rows, form, "surrogatepass")


def _difference(parsed, rows, form, errors):
    how = {"bits": form.hashing.bits, "signed": form.hashing.signed, "dtype": form.dtype, "errors": errors}
    for (_, _, found), row in zip(rows_of(parsed), rows):
        if found != hashed(row, **how):
            return f"{found} for {hashed(row, **how)}, which is {row}"
    return None
