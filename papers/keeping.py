"""The results of an experiment on disk: NAME.csv has the rows, NAME.json the rest."""

import csv
import json
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

from papers.experiment import Row
from thinstream.errors import InvalidInputError
from thinstream.files import replacing


@dataclass(frozen=True)
class Result:
    """The rows of an experiment, and the circumstances of the run."""

    rows: list[Row]
    seconds: float  # of all cells together
    missing: tuple[str, ...] = ()  # data sets
    smoke: bool = False
    machine: str = ""
    versions: str = ""


def this_machine() -> str:
    """Return the processor, its cores and the system."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        name = f"{models[0]}, {len(models)} cores" if models else name
    except OSError:  # not Linux
        pass
    return f"{name}, {platform.system()}, Python {platform.python_version()}"


def these_versions() -> str:
    """Return the versions of the packages that may change the numbers."""
    return ", ".join(f"{name} {version(name)}" for name in ("thinstream", "numpy", "numba", "scipy", "scikit-learn"))


def keep(folder: Path, name: str, result: Result) -> None:
    """Write both files."""
    columns = list(dict.fromkeys(column for row in result.rows for column in row))
    text = StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _text(value) for key, value in row.items()} for row in result.rows)
    rest = asdict(result)
    del rest["rows"]
    for ending, content in ((".csv", text.getvalue()), (".json", json.dumps(rest, indent=1) + "\n")):
        with replacing(folder / f"{name}{ending}") as file:
            file.write_text(content, encoding="utf-8")


def kept(folder: Path, name: str) -> Result | None:
    """Return the saved result, or None if there is none."""
    place, about = folder / f"{name}.csv", folder / f"{name}.json"
    if not (place.exists() and about.exists()):
        return None
    try:
        with place.open(encoding="utf-8", newline="") as file:
            rows = [{key: _value(text) for key, text in row.items() if text != ""} for row in csv.DictReader(file)]
        rest = json.loads(about.read_text(encoding="utf-8"))
        return Result(rows, **{**rest, "missing": tuple(rest["missing"])})
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(f"{place} and {about.name} are not the results of an experiment: {error}") from None


def _text(value: Any) -> str:
    if isinstance(value, float):
        return repr(float(value))
    return str(value)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            number: float = kind(text)
        except ValueError:
            continue
        return number
    return text
