"""``thinstream models``: the models of a server, their versions and challengers."""

from pathlib import Path
from typing import Annotated, Any

from thinstream.cli.declared import argument, option
from thinstream.cli.tokens import TokenFile, advice_for, token_of
from thinstream.errors import InvalidParameterError

#: What may be done, and the words that follow it.
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
        argument("A model's name, then versions (numbers, now) or the name of a challenger.", metavar="[NAME]..."),
    ] = None,
    url: Annotated[str, option("The server.", None, show_default=True)] = "http://127.0.0.1:8000",
    token: TokenFile = None,
    algorithm: Annotated[
        str | None, option("A fresh challenger of this algorithm.", _CHALLENGER, "--algorithm", "-a")
    ] = None,
    set: Annotated[  # noqa: A002 (the option's word)
        list[str] | None, option("A parameter of it: NAME=VALUE. May be given again.", _CHALLENGER, "--set")
    ] = None,
    json: Annotated[bool, option("Write JSON.", None, "--json")] = False,
) -> None:
    """List the models of a server, keep, compare and go back to versions, and let others challenge and replace them.

    list: models, or the versions and challengers of one. keep: the model of now as a version. rollback: go back to a
    version, and learn on from it. challenge: a model file, or a fresh model (--algorithm), learns along and does not
    answer. promote: it answers from now on. What happens is in the model's journal, as rows are: once, in order.
    """
    from thinstream.cli.render import show_json

    _check(action, words or [])
    if action != "challenge" and (algorithm or set):
        raise InvalidParameterError("--algorithm and --set are for challenge")
    from thinstream.client import Client, ServerError

    try:
        with Client(url, token=token_of(token)) as client:
            found = _asked(client, action, words or [], algorithm, set or [])
    except ServerError as error:
        raise ServerError(0, f"{error}{advice_for(error.status)}") from None
    if json:
        show_json(found)
    else:
        _show(action, found)


def _asked(client: Any, action: str, words: list[str], algorithm: str | None, parameters: list[str]) -> Any:
    """What the server says to it."""
    if action == "challenge":
        return _challenge(client, words, algorithm, parameters)
    if action == "list":
        return _listed(client, words)
    calls: dict[str, Any] = {"show": client.version, "compare": client.compare, "keep": client.keep_version}
    calls |= {"rollback": client.rollback, "promote": client.promote, "withdraw": client.withdraw}
    return calls[action](*words)


def _check(action: str, words: list[str]) -> None:
    if action not in ACTIONS:
        raise InvalidParameterError(f"an action is {', '.join(ACTIONS)}; got {action!r}")
    wanted = ACTIONS[action].split()
    needed = [word for word in wanted if not word.startswith("[")]
    if not len(needed) <= len(words) <= len(wanted):
        raise InvalidParameterError(
            f"thinstream models {action} {ACTIONS[action]}: got {len(words)} words after {action}"
        )


def _listed(client: Any, words: list[str]) -> dict[str, Any]:
    names = words or [each["name"] for each in client.models()]
    found = {}
    for name in names:
        found[name] = client.versions(name) | client.challengers(name)
    return found


def _challenge(client: Any, words: list[str], algorithm: str | None, parameters: list[str]) -> dict[str, Any]:
    if (len(words) == 3) == (algorithm is not None):
        raise InvalidParameterError("a challenger is a FILE, or fresh with --algorithm: one of both")
    found: dict[str, Any] = client.challenge(
        *words[:2], Path(words[2]).read_bytes() if len(words) == 3 else algorithm, dict(map(_parameter, parameters))
    )
    return found


def _parameter(text: str) -> tuple[str, Any]:
    import json

    name, sign, value = text.partition("=")
    if not (name and sign):
        raise InvalidParameterError(f"--set takes NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _show(action: str, found: dict[str, Any]) -> None:
    from thinstream.cli.models_table import show_changed, show_compared, show_listed, show_version

    if action == "list":
        show_listed(found)
    elif action == "compare":
        show_compared(found)
    elif action == "show":
        show_version(found)
    else:
        show_changed(action, found)
