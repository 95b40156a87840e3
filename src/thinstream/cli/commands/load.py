"""``thinstream load``: measure how fast a server responds."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Annotated

from thinstream.cli.options import TokenFile, advice_for, argument, option, token_of


def load(
    url: Annotated[str, argument("The address of the server, such as http://127.0.0.1:8000.")],
    data: Annotated[
        list[str],
        argument("Data files in the format of the model: libsvm, VW, JSON Lines or CSV. .csv and .tsv have a header."),
    ],
    rate: Annotated[float | None, option("Requests per second (default: as many as possible).", None, min=0.01)] = None,
    batch: Annotated[int, option("Rows per request.", None, min=1, show_default=True)] = 1,
    connections: Annotated[int, option("The number of connections.", None, min=1, show_default=True)] = 8,
    predict: Annotated[bool, option("Send /predict requests instead of /learn requests.", None, "--predict")] = False,
    model: Annotated[str | None, option("The name of the model, if the server has several.", None)] = None,
    token: TokenFile = None,
    json: Annotated[bool, option("Print JSON.", None, "--json")] = False,
) -> int:
    """Send rows to a server and measure response times.

    The server learns the rows, unless you pass --predict. Do not use a production model. Latencies count from the time
    when a request was due. Requests that the server postpones are sent again with the same key. If requests fail, the
    command prints the first reason and exits with code 1. It stops if the token is missing or not allowed to learn.
    """
    from thinstream.cli.render import say, show_json
    from thinstream.serve.load_test import FINAL, Load, batched, require_some

    sender = Load(url, "/predict" if predict else "/learn", model, token_of(token), connections, rate)
    lines = chain.from_iterable(_lines(path) for path in data)
    outcome = require_some(sender.run(batched(lines, batch)))
    totals = outcome.as_dict()
    if json:
        show_json(totals)
    else:
        print(
            f"{totals['requests']:,} requests in {totals['seconds']} s, {totals['requests_per_second']:,} per second; "
            f"{totals['rows_acknowledged']:,} rows acknowledged, {totals['sent_again']:,} requests sent again"
        )
        print("milliseconds: " + ", ".join(f"{name} {value}" for name, value in totals["milliseconds"].items()))
        print("statuses: " + ", ".join(f"{status}: {count:,}" for status, count in totals["statuses"].items()))
    first = outcome.first
    if first is None:
        return 0
    failed = sum(outcome.statuses.values()) - outcome.statuses[200]
    ended = ", and the test was stopped" if any(status in FINAL for status in outcome.statuses) else ""
    say(
        f"thinstream: {failed:,} of {totals['requests']:,} requests failed{ended}. The first error: "
        f"{first.reason} ({first.status}){advice_for(first.status)}"
    )
    return 1


def _lines(path: str) -> Iterator[bytes]:
    """Return the rows of a file, without the header."""
    from thinstream.data.formats import format_of
    from thinstream.data.sources import text_rows

    lines = (line.rstrip(b"\r") for some in text_rows([path], None, 1 << 28, None) for line in some)
    return islice(lines, 1 if format_of(path) in ("csv", "tsv") else 0, None)
