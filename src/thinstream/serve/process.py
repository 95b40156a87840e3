"""A process of a server, started by `children`: ``python -m thinstream.serve.process``."""

import json
import sys
from pathlib import Path
from typing import Any

from thinstream.errors import ThinstreamError


def main() -> int:
    """Is what standard input says, until that is closed."""
    line = sys.stdin.buffer.readline()
    if not line:  # whoever started it is gone already
        return 0
    order: dict[str, Any] = json.loads(line)
    from thinstream.serve.places import Places
    from thinstream.serve.settings import Limits, Settings

    places = Places(Path(order["data"]))
    try:
        if order["role"] == "learner":
            from thinstream.serve import learner

            if not learner.run(places, Settings(**order["settings"]), order["names"]):
                return 1
        else:
            from thinstream.serve import predictor

            predictor.run(places, Limits(**order["limits"]), order)
    except (ThinstreamError, OSError) as error:
        sys.stderr.write(f"thinstream: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
