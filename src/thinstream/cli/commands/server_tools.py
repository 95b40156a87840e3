"""``thinstream backup``, ``load`` and ``models``: copy, measure and manage a server."""

import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

from thinstream.cli.options import TokenFile, advice_for, argument, option, token_of
from thinstream.cli.terminal import printable
from thinstream.errors import InvalidParameterError, listed


def backup(
    data: Annotated[Path, argument("The folder of the server (its --data).", metavar="DATA")],
    target: Annotated[Path, argument("A new folder for the copy.", metavar="TARGET")],
) -> None:
    """Copy the folder of a server, also while the server runs.

    Other tools can copy a journal and a checkpoint that don't match. To restore the copy, stop the server and start it
    with the copy: thinstream serve --data TARGET.
    """
    from thinstream.serve import require_packages

    require_packages()
    from thinstream.serve.folders import ServerPaths, back_up

    names = back_up(ServerPaths(data), target)
    print(f"backed up {', '.join(names)} to {target}")


def load(
    url: Annotated[str, argument("The address of the server, such as http://127.0.0.1:8000.")],
    data: Annotated[
        list[str],
        argument("Data files in the format of the model: libsvm, VW, JSON Lines or CSV. .csv and .tsv have a header."),
    ],
    rate: Annotated[float | None, option("Requests per second (default: as many as possible).", min=0.01)] = None,
    batch: Annotated[int, option("Rows per request.", min=1)] = 1,
    connections: Annotated[int, option("The number of connections.", min=1)] = 8,
    predict: Annotated[bool, option("Send /predict requests instead of /learn requests.")] = False,
    model: Annotated[str | None, option("The name of the model, if the server has several.")] = None,
    token: TokenFile = None,
    json: Annotated[bool, option("Print JSON.")] = False,
) -> int:
    """Send rows to a server and measure response times.

    The server learns the rows, unless you pass --predict. Do not use a production model. Latencies are measured from
    the time a request was due. Requests that the server postpones are sent again with the same key. If requests fail,
    the command prints the first reason and exits with code 1. It stops if the token is missing or not allowed to learn.
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


#: Actions, and the arguments that follow them.
ACTIONS = {
    "list": "[MODEL]",
    "show": "MODEL VERSION",
    "compare": "MODEL VERSION VERSION",
    "keep": "MODEL",
    "rollback": "MODEL VERSION",
    "challenge": "MODEL NAME [FILE]",
    "promote": "MODEL NAME",
    "withdraw": "MODEL NAME",
}
_CHALLENGER = "Challengers"


def models(
    action: Annotated[str, argument(f"One of {', '.join(ACTIONS)}.")],
    words: Annotated[
        list[str] | None,
        argument("The name of a model, then versions (numbers or now) or a challenger.", metavar="NAME"),
    ] = None,
    url: Annotated[str, option("The address of the server.")] = "http://127.0.0.1:8000",
    token: TokenFile = None,
    algorithm: Annotated[
        str | None, option("Add a new model with this algorithm as a challenger.", _CHALLENGER, "--algorithm", "-a")
    ] = None,
    set: Annotated[  # noqa: A002 (the option's word)
        list[str] | None, option("A parameter of the new model: NAME=VALUE. Repeatable.", _CHALLENGER)
    ] = None,
    json: Annotated[bool, option("Print JSON.")] = False,
) -> None:
    """List the models of a server, save, compare and restore versions, and add and promote challengers.

    list shows all models, or the versions and challengers of one. show and compare print versions. keep saves the model
    as a version. rollback continues from a version. challenge adds a model file, or a new model (--algorithm), that
    learns the same rows but does not serve predictions. promote replaces the model by a challenger. withdraw removes a
    challenger. The server records each change in the journal of the model.
    """
    from thinstream.cli.render import show_json

    _check(action, words or [])
    if action != "challenge" and (algorithm or set):
        raise InvalidParameterError("--algorithm and --set can only be used with challenge")
    from thinstream.serve.client import Client, ServerError

    try:
        with Client(url, token=token_of(token)) as client:
            response = _request(client, action, words or [], algorithm, set or [])
    except ServerError as error:
        raise ServerError(0, f"{error}{advice_for(error.status)}") from None
    if json:
        show_json(response)
    else:
        _show(action, response)


def _request(client: Any, action: str, words: list[str], algorithm: str | None, parameters: list[str]) -> Any:
    if action == "challenge":
        return _challenge(client, words, algorithm, parameters)
    if action == "list":
        return _listed(client, words)
    calls: dict[str, Any] = {"show": client.version, "compare": client.compare, "keep": client.keep_version}
    calls |= {"rollback": client.rollback, "promote": client.promote, "withdraw": client.withdraw}
    return calls[action](*words)


def _check(action: str, words: list[str]) -> None:
    if action not in ACTIONS:
        raise InvalidParameterError(f"the action must be {listed(ACTIONS)}, got {action!r}")
    wanted = ACTIONS[action].split()
    needed = [word for word in wanted if not word.startswith("[")]
    if not len(needed) <= len(words) <= len(wanted):
        raise InvalidParameterError(
            f"the arguments must be 'thinstream models {action} {ACTIONS[action]}', got {len(words)} after {action}"
        )


def _listed(client: Any, words: list[str]) -> dict[str, Any]:
    names = words or [model["name"] for model in client.models()]
    return {name: client.versions(name) | client.challengers(name) for name in names}


def _challenge(client: Any, words: list[str], algorithm: str | None, parameters: list[str]) -> dict[str, Any]:
    if (len(words) == 3) == (algorithm is not None):
        raise InvalidParameterError("challenge needs either a model FILE or --algorithm")
    source = Path(words[2]).read_bytes() if len(words) == 3 else algorithm
    response: dict[str, Any] = client.challenge(*words[:2], source, dict(map(_parameter, parameters)))
    return response


def _parameter(text: str) -> tuple[str, Any]:
    import json

    name, sign, value = text.partition("=")
    if not (name and sign):
        raise InvalidParameterError(f"--set must be NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _show(action: str, response: dict[str, Any]) -> None:
    if action == "list":
        _show_models(response)
    elif action == "compare":
        _show_comparison(response)
    elif action == "show":
        for name, value in {**response["about"], **response["parameters"]}.items():
            print(printable(f"{name:<12} {value}"))
    else:
        _show_change(action, response)


def _show_models(models: dict[str, Any]) -> None:
    for name, model in models.items():
        print(printable(f"{name} serves version {model['version']}"))
        if model["versions"]:
            print(f"  {'version':>12}  {'saved':<19}  {'rows':>12}  {'error %':>8}  {'non-zeros':>10}  reason")
        for version in model["versions"]:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version["time"]))
            print(
                f"  {version['version']:>12}  {when}  {_whole(version['rows']):>12}  {_share(version['error']):>8}  "
                f"{_whole(version['nnz']):>10}  {version['cause']}"
            )
        if model["challengers"]:
            head = (
                f"  {'challenger':<24}  {'rows':>12}  {'error %':>8}  {'champion %':>10}  {'AUC':>7}  {'champion':>8}"
            )
            print(head)
        for challenger in model["challengers"]:
            own, champion = challenger["progressive"], challenger["champion"]
            line = (
                f"  {challenger['name'] + ' (' + challenger['algorithm'] + ')':<24}  {_whole(own.get('rows', 0)):>12}  "
                f"{_share(own.get('error')):>8}  {_share(champion.get('error')):>10}  "
                f"{_number(own.get('auc')):>7}  {_number(champion.get('auc')):>8}"
            )
            print(printable(line + (f"  failed: {challenger['out']}" if challenger["out"] else "")))


def _show_comparison(comparison: dict[str, Any]) -> None:
    first, second = comparison["versions"]
    distance = comparison["distance"]
    print(f"versions {first} and {second}: {comparison['changed']:,} weights differ, distance {distance:.6g}")
    print(f"{'non-zeros':<12} {comparison['non_zeros'][0]:,} and {comparison['non_zeros'][1]:,}")
    print(f"{'added':<12} {comparison['appeared']:,}, removed {comparison['gone']:,}")
    print(f"{'cosine':<12} {_number(comparison['cosine'])}")
    if comparison["most"]:
        print(f"\n{'feature':<40} {'from':>14} {'to':>14}")
    for weight in comparison["most"]:
        print(printable(f"{weight['feature']:<40} {weight['from']:>14.6g} {weight['to']:>14.6g}"))


def _show_change(action: str, change: dict[str, Any]) -> None:
    effect = {
        "keep": "is saved as version {kept}",
        "rollback": "was rolled back to version {version}, and its previous state is version {kept}",
        "challenge": "has the challenger {name}",
        "promote": "was replaced by {name}, and the previous champion is version {kept}",
        "withdraw": "no longer has the challenger {name}",
    }[action].format(**change)
    later = "" if change["done"] else " (recorded in the journal, and applied after the entries before it)"
    print(printable(f"{change['model']} {effect}{later}; it serves version {change['answers_with']}"))


def _whole(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    from thinstream.training.formatting import percent

    return "–" if value is None else percent(value)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
