"""``thinstream serve``: serve models over HTTP."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any
from urllib.parse import urlsplit

from thinstream.cli.options import Specified, argument, option
from thinstream.data.brokers import ON_GAP, shown
from thinstream.errors import InvalidInputError, InvalidParameterError, ThinstreamError, near

DURABLE, LIMITS, ACCESS, CONFIGURATION = "Durability", "Limits", "Access", "Configuration"
#: Environment variables with this prefix set options.
PREFIX = "THINSTREAM_SERVE_"
#: Options that only the command line has.
_ONLY_HERE = ("print_config", "specified")


def serve(
    models: Annotated[
        list[str] | None,
        argument(
            "Model files. A model has the name of its file, or NAME with NAME=FILE. Default: all models in the folder.",
            metavar="MODEL",
        ),
    ] = None,
    data: Annotated[
        Path, option("The folder of journals and checkpoints, created if needed.", DURABLE, metavar="DIR")
    ] = Path("thinstream-data"),
    new: Annotated[
        list[str] | None,
        option("Create a model: NAME:ALGORITHM, or NAME:ALGORITHM:NEG,POS (default: 0,1). Repeatable."),
    ] = None,
    bits: Annotated[
        int, option("Hash feature names of new models into 2^BITS columns. 0: features are numbers.", min=0, max=31)
    ] = 18,
    allow_empty: Annotated[bool, option("Start without a model. The server is not ready until one is loaded.")] = False,
    on_retrained: Annotated[
        str,
        option(
            "If a model file has changed since it was deployed: refuse to start (default), add it as a challenger, or "
            "replace the model and save the previous one as a version.",
            values=("refuse", "challenge", "replace"),
        ),
    ] = "refuse",
    source: Annotated[
        list[str] | None,
        option(
            "Also learn from messages of a broker: redis://…, nats://…, kafka://…. With several models, write "
            "NAME=ADDRESS. Repeatable.",
            metavar="[NAME=]ADDRESS",
        ),
    ] = None,
    on_gap: Annotated[
        str,
        option(
            "With --source, if the broker has removed messages before they were read: stop the source (default), or "
            "continue without them and report how many are missing.",
            values=ON_GAP,
        ),
    ] = "stop",
    workers: Annotated[int, option("The number of processes that predict.", min=1)] = 1,
    host: Annotated[
        str, option("Address to listen on. Addresses that other machines reach need --tokens.", ACCESS)
    ] = "127.0.0.1",
    port: Annotated[int, option("The port. 0: any free port.", ACCESS, min=0, max=65535)] = 8000,
    tokens: Annotated[
        Path | None,
        option(
            "The file of tokens. Each line has scopes (read,learn,admin), a space, and a token of at least 16 "
            "characters.",
            ACCESS,
        ),
    ] = None,
    certificate: Annotated[Path | None, option("The TLS certificate.", ACCESS)] = None,
    key: Annotated[Path | None, option("The key of the TLS certificate.", ACCESS)] = None,
    log: Annotated[bool, option("Log each request, without its body.", CONFIGURATION)] = False,
    log_format: Annotated[
        str, option("The format of the log on standard error.", CONFIGURATION, values=("text", "json"))
    ] = "text",
    config: Annotated[
        Path | None,
        option(
            f"A TOML file with options, such as max-rows = 100. Environment variables ({PREFIX}MAX_ROWS) override it, "
            "and the command line overrides both.",
            CONFIGURATION,
        ),
    ] = None,
    print_config: Annotated[
        bool, option("Print all options as TOML with the source of each, and exit.", CONFIGURATION)
    ] = False,
    checkpoint_seconds: Annotated[float, option("Seconds between two checkpoints.", DURABLE, min=0.1)] = 60.0,
    archive: Annotated[
        bool, option("Archive learned journal entries as caches that `thinstream train` reads.", DURABLE)
    ] = False,
    version_rows: Annotated[
        int | None, option("Save a version after this number of rows (default: by time).", DURABLE, min=1)
    ] = None,
    version_seconds: Annotated[
        float, option("Save a version after this number of seconds. 0: never.", DURABLE, min=0.0)
    ] = 600.0,
    versions: Annotated[int, option("The number of versions to keep.", DURABLE, min=1)] = 10,
    keep: Annotated[int, option("The maximum number of rows that wait for their labels.", DURABLE, min=1)] = 1_000_000,
    wait_seconds: Annotated[
        float | None,
        option("How long a row may wait for its label, in seconds (default: no limit).", DURABLE, min=0.001),
    ] = None,
    keep_bytes: Annotated[int, option("The maximum size of all waiting rows, in bytes.", DURABLE, min=1)] = 1 << 30,
    recover: Annotated[
        bool,
        option(
            "Continue with a journal and a checkpoint that don't match, for example after a restored copy, and "
            "quarantine damaged entries. The old journal stays next to the new one.",
            DURABLE,
        ),
    ] = False,
    body: Annotated[int, option("The maximum size of a request, in bytes.", LIMITS, "--max-body", min=1)] = 16 << 20,
    rows: Annotated[int, option("The maximum number of rows in a request.", LIMITS, "--max-rows", min=1)] = 10_000,
    features: Annotated[
        int, option("The maximum number of features in a row.", LIMITS, "--max-features", min=1)
    ] = 1_000_000,
    request_features: Annotated[
        int,
        option(
            "The maximum number of features in all rows of a request, including n-grams and crosses.",
            LIMITS,
            "--max-request-features",
            min=1,
        ),
    ] = 4_000_000,
    model_bytes: Annotated[
        int,
        option(
            "The maximum size of a model after a request with new feature numbers, in bytes.",
            LIMITS,
            "--max-model-bytes",
            min=1,
        ),
    ] = 1 << 30,
    require_columns: Annotated[
        bool, option("For models trained on a table, reject rows with missing or additional columns.", LIMITS)
    ] = False,
    connections: Annotated[
        int, option("The maximum number of connections of a process.", LIMITS, "--max-connections", min=1)
    ] = 1000,
    per_address: Annotated[
        int | None,
        option(
            "The maximum number of connections of a process from one client address (default: half of all).",
            LIMITS,
            "--max-per-address",
            min=1,
        ),
    ] = None,
    specified: Specified = Specified(),  # noqa: B008 (it is frozen)
) -> int:
    """Serve models over HTTP. They predict, and learn from labels that arrive with the rows or later.

    POST /predict, /learn and /label accept JSON, MessagePack or lines of text. /v2 is the Open Inference Protocol.
    /docs describes all requests. Acknowledged rows are on disk. If the server is killed and restarted with the same
    folder, it learns every acknowledged row exactly once, in order.
    """
    values, origins = _configured(dict(locals()), specified)
    if print_config:
        _print(values, origins)
        return 0
    options = SimpleNamespace(**values)
    for address in options.source or ():
        if origins["source"] == "command line" and urlsplit(address.partition("=")[2] or address).password:
            raise InvalidParameterError(
                f"--source {shown(address)}: passwords on the command line are visible to other users. Set it in "
                f"THINSTREAM_BROKER_PASSWORD, {PREFIX}SOURCE or the --config file"
            )
    from thinstream.serve import log as logs

    try:
        return _serve(options)
    except ThinstreamError as error:
        if options.log_format == "text":
            raise
        logs.set_up(options.log_format)
        logs.log(str(error), logs.ERROR)
        return 2 if isinstance(error, InvalidParameterError) else 1


def _serve(options: SimpleNamespace) -> int:
    """Run the server with its final options."""
    from thinstream.serve import require_packages

    require_packages()
    from thinstream.serve import Limits, Settings
    from thinstream.serve.folders import ServerPaths
    from thinstream.serve.log import set_up
    from thinstream.serve.served_models import register
    from thinstream.serve.sources import by_model
    from thinstream.serve.supervisor import Listening, Supervisor

    paths = ServerPaths(options.data)
    how = "Pass a model file, --new NAME:ALGORITHM or --allow-empty"
    if not options.models and not options.new and not options.allow_empty and not paths.names():
        raise InvalidInputError(
            f"{options.data} {'has no models' if options.data.exists() else 'does not exist'}. {how}"
        )
    with paths.held():
        retrained: dict[str, tuple[str, str, str]] = {}
        names = register(paths, options.models or (), options.new or (), options.bits, retrained, options.on_retrained)
        listening, limits = _fill(Listening, options), _fill(Limits, options)
        sources = by_model(options.source or [], names, options.on_gap)
        settings = _fill(Settings, options, sources=sources, retrained=retrained)
        settings = settings._replace(version_seconds=options.version_seconds or None)
        server = Supervisor(paths, names, listening, settings, limits)
        set_up(options.log_format)
        line = f"serving {', '.join(names) or 'no model yet'} on {server.address}"
        return server.run(lambda: print(line, flush=True) if options.log_format == "text" else None)


def _fill(group: Any, options: SimpleNamespace, **more: Any) -> Any:
    """Return a named tuple with the options of the same names."""
    return group(**{name: value for name, value in vars(options).items() if name in group._fields}, **more)


# The configuration: the command line, then environment variables, then a TOML file, then defaults.


def _configured(values: dict[str, Any], specified: Specified) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of all options, and the source of each."""
    names, values = _option_names(), {name: value for name, value in values.items() if name not in _ONLY_HERE}
    origins = {name: "command line" if name in specified else "default" for name in values}
    by_key = {key: name for name, key in names.items()}
    variables = {key: text for key, text in os.environ.items() if key.startswith(PREFIX)}

    def use(origin: str, settings: Mapping[str, Any]) -> None:
        for key, value in settings.items():
            word = key.removeprefix(PREFIX).lower().replace("_", "-")
            if word not in by_key:
                raise InvalidInputError(f"{origin}: unknown option {key!r}{near(word, [*by_key], '; ')}")
            if origins[by_key[word]] == "default":
                values[by_key[word]] = _parsed(by_key[word], word, value, f"{origin}, {key}")
                origins[by_key[word]] = key if origin == "environment" else origin

    use("environment", variables)
    if values["config"] is not None:
        import tomllib

        try:
            use(str(values["config"]), tomllib.loads(Path(values["config"]).read_text(encoding="utf-8")))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"{values['config']}: is not a TOML file: {error}") from None
    return values, origins


def _option_names() -> dict[str, str]:
    """Return the name of each parameter in the configuration: that of its option without dashes at the front."""
    from thinstream.cli.options import declared_in
    from thinstream.cli.parser import Command

    names = {}
    for parameter in Command(serve).parameters:
        declared = declared_in(parameter.annotation)[1]
        names[parameter.name] = (declared.names or (parameter.name.replace("_", "-"),))[0].removeprefix("--")
    return {name: key for name, key in names.items() if name not in _ONLY_HERE}


def _parsed(name: str, key: str, value: Any, source: str) -> Any:
    """Check and return a value of the environment (a text, with spaces between the items of a list) or of TOML."""
    from thinstream.cli.parser import command_parser

    flags, lists = ("allow_empty", "log", "archive", "recover", "require_columns"), ("models", "new", "source")
    if name in flags:
        truth = {"true": True, "1": True, "false": False, "0": False}
        if str(value).lower() not in truth:
            raise InvalidInputError(f"{source} must be true or false, got {value!r:.40}")
        return truth[str(value).lower()]
    if name in lists:
        texts = value.split() if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise InvalidInputError(f"{source} must be a list of strings, got {value!r:.40}")
        return texts
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InvalidInputError(f"{source} must be a single value, got {value!r:.40}")
    try:
        return command_parser("serve")[0].parse([f"--{key}={value}"])[name]
    except InvalidParameterError as error:
        raise InvalidInputError(f"{source}: {error}") from None


def _print(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Print the configuration as TOML, without passwords."""
    import json
    import re

    names = _option_names()
    for name, value in values.items():
        if value is None or name == "config":
            print(f"# {names[name]}: {'not set' if value is None else value}  # {origins[name]}")
            continue
        texts = [re.sub("://[^@/]*@", "://…@", text) for text in value] if name == "source" else value
        text = json.dumps(str(texts) if isinstance(texts, Path) else texts, ensure_ascii=False)
        print(f"{names[name]} = {text}  # {origins[name]}")
