"""A process that compiles the requests of its standard input: ``python -m thinstream.jit.worker [BASELINE FOLDER]``.

Without arguments, it compiles for this processor into the cache. It ends with its standard input.
"""

import os
import pickle
import sys
from pathlib import Path


def main(baseline: str = "", folder: str = "") -> None:
    """Compile one request after another, and write a line for each: "done" or an error."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # code that is imported may print
    if baseline:
        from thinstream.jit.compiler import compile_for

        compile_for(baseline)
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        except Exception as error:  # the function cannot be found here
            replies.write(f"{error!r}\n")
            continue
        try:
            request.ship(baseline, Path(folder)) if baseline else request.code()
            reply = "done"
        except Exception as error:
            reply = " ".join(repr(error).split())
        replies.write(f"{reply}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
