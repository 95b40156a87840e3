"""Phase 2, a process of its own: what each text gives, one JSON line before and one after each.

Interpreted (NUMBA_DISABLE_JIT=1), or compiled with checked bounds (NUMBA_BOUNDSCHECK=1). Texts end at a page that
cannot be read, so that reading on ends the process; the last line then tells at which text.
"""

import faulthandler
import json
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from tests.fuzz.checks import outcome
from tests.fuzz.formats import maker
from tests.fuzz.guard import Guarded


def main(name, timeout, *folders):
    import numba

    if not (numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK):
        raise SystemExit("set NUMBA_DISABLE_JIT=1 or NUMBA_BOUNDSCHECK=1")
    make, twin = maker(name)
    place = Guarded()
    with suppress(Exception):  # if it matters, a text below says so
        outcome(make, None, b"", place)  # compiles, which no timeout should count
    for file in files_in(folders):
        print(json.dumps({"at": str(file)}), flush=True)
        faulthandler.dump_traceback_later(float(timeout), exit=True)
        try:
            result = {"outcome": outcome(make, twin, file.read_bytes(), place)}
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            result = {"finding": f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"}
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(result), flush=True)


def files_in(folders):
    """Every file in them, once for each content."""
    found = {}
    for folder in folders:
        for file in sorted(Path(folder).glob("*")):
            if file.is_file():
                found.setdefault(file.read_bytes(), file)
    return found.values()


if __name__ == "__main__":
    main(*sys.argv[1:])
