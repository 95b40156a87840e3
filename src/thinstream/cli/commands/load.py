"""``thinstream load``: a load test of a server, for its owner."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Annotated

from thinstream.cli.declared import argument, option
from thinstream.cli.tokens import TokenFile, advice_for, token_of


def load(
    url: Annotated[str, argument("The server: http://127.0.0.1:8000.")],
    data: Annotated[
        list[str],
        argument("Files of lines: libsvm, VW, JSON Lines, CSV, as the model takes them; .csv and .tsv have a header."),
    ],
    rate: Annotated[
        float | None, option("Requests a second (default: as fast as answers come).", None, min=0.01)
    ] = None,
    batch: Annotated[int, option("Rows of a request.", None, min=1, show_default=True)] = 1,
    connections: Annotated[int, option("Connections.", None, min=1, show_default=True)] = 8,
    predict: Annotated[bool, option("Ask for predictions instead of teaching the rows.", None, "--predict")] = False,
    model: Annotated[str | None, option("Name of the model, if the server has several.", None)] = None,
    token: TokenFile = None,
    json: Annotated[bool, option("Write JSON.", None, "--json")] = False,
) -> int:
    """Send the rows of files to a server, and say how long it took to answer and what it has acknowledged.

    Latencies count from when a request was due. Requests that are put off are sent again under the same name. The rows
    are learned, unless --predict is given: take a server that may. Where requests fail the first reason is told, and
    the exit code is 1; without a token that may, no more are sent.
    """
    from thinstream.cli.render import say, show_json
    from thinstream.serve.load import FINAL, Load, batched, require_some

    sender = Load(url, "/predict" if predict else "/learn", model, token_of(token), connections, rate)
    lines = chain.from_iterable(_lines(path) for path in data)
    outcome = require_some(sender.run(batched(lines, batch)))
    found = outcome.as_dict()
    if json:
        show_json(found)
    else:
        print(
            f"{found['requests']:,} requests in {found['seconds']} s, {found['requests_per_second']:,} a second; "
            f"{found['rows_acknowledged']:,} rows acknowledged, {found['sent_again']:,} requests sent again"
        )
        print("milliseconds: " + ", ".join(f"{name} {value}" for name, value in found["milliseconds"].items()))
        print("statuses: " + ", ".join(f"{status}: {many:,}" for status, many in found["statuses"].items()))
    first = outcome.first
    if first is None:
        return 0
    failed = sum(outcome.statuses.values()) - outcome.statuses[200]
    ended = ", no more were sent" if any(status in FINAL for status in outcome.statuses) else ""
    say(
        f"thinstream: {failed:,} of {found['requests']:,} requests failed{ended}, the first: "
        f"{first.reason} ({first.status}){advice_for(first.status)}"
    )
    return 1


def _lines(path: str) -> Iterator[bytes]:
    """The rows of a file, without the names of columns."""
    from thinstream.streams.formats import format_of
    from thinstream.streams.lines.textlines import text_rows

    lines = (line.rstrip(b"\r") for some in text_rows([path], None, 1 << 28, None) for line in some)
    return islice(lines, 1 if format_of(path) in ("csv", "tsv") else 0, None)
