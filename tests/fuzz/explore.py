"""Phase 1, a process of its own: looks for texts that reach new code, interpreted, and checks each."""

import sys

from tests.fuzz.checks import outcome
from tests.fuzz.formats import known, maker
from tests.fuzz.guard import copied


def main(name, *arguments):
    """The rest of the arguments is libFuzzer's."""
    import atheris
    import numba

    if not numba.config.DISABLE_JIT:
        raise SystemExit("compiled code tells nothing about what it reaches: set NUMBA_DISABLE_JIT=1")
    with atheris.instrument_imports(include=["thinstream.data", known(name).place.partition(":")[0]]):
        make, twin = maker(name)
    atheris.Setup([sys.argv[0], *arguments], lambda data: outcome(make, twin, data, copied))
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
