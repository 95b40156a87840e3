"""``thinstream serve``: answers and learns at once, and loses nothing."""

from pathlib import Path
from typing import Annotated

from thinstream.cli.declared import argument, option
from thinstream.streams.brokers import ON_GAP

DURABLE, LIMITS, ACCESS = "Keeping", "Limits", "Access"


def serve(
    models: Annotated[
        list[str] | None,
        argument(
            "Model files, each called by its name, or NAME=FILE; without any, all that the folder has.",
            metavar="[MODEL]...",
        ),
    ] = None,
    data: Annotated[
        Path,
        option("The folder of journals and checkpoints, made if need be.", DURABLE, metavar="DIR", show_default=True),
    ] = Path("thinstream-data"),
    new: Annotated[
        list[str] | None,
        option("A fresh model: NAME:ALGORITHM or NAME:ALGORITHM:NEG,POS (labels 0 and 1). May be given again.", None),
    ] = None,
    bits: Annotated[
        int,
        option(
            "Named features of fresh models are hashed into 2^bits numbers; 0: features have numbers.",
            None,
            min=0,
            max=31,
            show_default=True,
        ),
    ] = 18,
    source: Annotated[
        list[str] | None,
        option(
            "Learn from a broker's messages, too: redis://…, nats://…, kafka://…, with NAME= before it where there are "
            "several models. May be given again.",
            None,
            metavar="[NAME=]ADDRESS",
        ),
    ] = None,
    on_gap: Annotated[
        str,
        option(
            "With --source, if the broker has removed messages before they were read: stop the source (default), or "
            "continue without them and report how many are missing.",
            None,
            metavar="stop|continue",
            values=lambda: ON_GAP,
        ),
    ] = "stop",
    workers: Annotated[int, option("Processes that predict.", None, min=1, show_default=True)] = 1,
    host: Annotated[
        str, option("Address to listen on; others than this machine's need --tokens.", ACCESS, show_default=True)
    ] = "127.0.0.1",
    port: Annotated[int, option("Port; 0: any that is free.", ACCESS, min=0, max=65535, show_default=True)] = 8000,
    tokens: Annotated[
        Path | None,
        option(
            "A file of tokens: on each line scopes (read,learn,admin), a blank, a token of 16 letters or more.", ACCESS
        ),
    ] = None,
    certificate: Annotated[Path | None, option("TLS: the certificate.", ACCESS)] = None,
    key: Annotated[Path | None, option("TLS: its key.", ACCESS)] = None,
    log: Annotated[
        bool, option("A line on standard error for each request, without its body.", ACCESS, "--log")
    ] = False,
    checkpoint: Annotated[
        float, option("Seconds between two checkpoints.", DURABLE, "--checkpoint-seconds", min=0.1, show_default=True)
    ] = 60.0,
    archive: Annotated[
        bool,
        option("Keep what is cut from the journal, as caches that `thinstream train` reads.", DURABLE, "--archive"),
    ] = False,
    version_rows: Annotated[
        int | None, option("Rows between two versions that are kept (default: by time).", DURABLE, min=1)
    ] = None,
    version_seconds: Annotated[
        float, option("Seconds between two versions that are kept; 0: none.", DURABLE, min=0.0, show_default=True)
    ] = 600.0,
    versions: Annotated[int, option("Versions that are kept.", DURABLE, min=1, show_default=True)] = 10,
    keep: Annotated[int, option("Rows that may wait for their labels.", DURABLE, min=1, show_default=True)] = 1_000_000,
    wait: Annotated[
        float | None,
        option("Seconds that a row may wait for its label (default: for ever).", DURABLE, "--wait-seconds", min=0.001),
    ] = None,
    keep_bytes: Annotated[
        int,
        option("Bytes of all rows together that wait for their labels.", DURABLE, min=1, show_default=True),
    ] = 1 << 30,
    recover: Annotated[
        bool,
        option(
            "Continue with a journal and a checkpoint that don't match, for example after a restored copy, and set "
            "damaged entries aside. The old journal stays next to the new one.",
            DURABLE,
            "--recover",
        ),
    ] = False,
    body: Annotated[int, option("Bytes of a request.", LIMITS, "--max-body", min=1, show_default=True)] = 16 << 20,
    rows: Annotated[int, option("Rows of a request.", LIMITS, "--max-rows", min=1, show_default=True)] = 10_000,
    features: Annotated[
        int, option("Features of a row.", LIMITS, "--max-features", min=1, show_default=True)
    ] = 1_000_000,
    request_features: Annotated[
        int,
        option(
            "Features of all rows of a request, with their n-grams and crosses.",
            LIMITS,
            "--max-request-features",
            min=1,
            show_default=True,
        ),
    ] = 4_000_000,
    model_bytes: Annotated[
        int,
        option(
            "Bytes that a model may need for the highest feature number of a request.",
            LIMITS,
            "--max-model-bytes",
            min=1,
            show_default=True,
        ),
    ] = 1 << 30,
    connections: Annotated[
        int, option("Connections of a process.", LIMITS, "--max-connections", min=1, show_default=True)
    ] = 1000,
    per_address: Annotated[
        int | None,
        option(
            "Connections of a process that one client address may have (default: half of all).",
            LIMITS,
            "--max-per-address",
            min=1,
        ),
    ] = None,
) -> int:
    """Serve models over HTTP: predictions now, labels now or later; what is acknowledged is on disk, and learned once.

    POST /predict, /learn and /label take JSON, MessagePack or lines of text; /v2 is the Open Inference Protocol; /docs
    says it all. Killed at any moment and started again with the same folder, the server has learned every
    acknowledged example exactly once, in order.
    """
    from thinstream.serve import require_packages

    require_packages()
    from thinstream.errors import InvalidInputError
    from thinstream.serve.feeding import by_model
    from thinstream.serve.places import Places
    from thinstream.serve.registering import register
    from thinstream.serve.settings import Limits, Settings
    from thinstream.serve.supervisor import Listening, Supervisor

    if not models and not new and not data.exists():
        raise InvalidInputError(f"{data} does not exist; name a model file, or --new NAME:ALGORITHM, to serve one")
    places = Places(data)
    with places.held():
        names = register(places, models or (), new or (), bits)
        listening = Listening(host, port, workers, tokens, certificate, key, log, connections=connections)
        sources = by_model(source or [], names, on_gap)
        settings = Settings(keep, wait, checkpoint_seconds=checkpoint, archive=archive, sources=sources)
        settings = settings._replace(
            versions=versions,
            version_rows=version_rows,
            version_seconds=version_seconds or None,
            keep_bytes=keep_bytes,
            recover=recover,
        )
        limits = Limits(body, rows, features, request_features, model_bytes, per_address=per_address)
        server = Supervisor(places, names, listening, settings, limits)
        told = f"serving {', '.join(names) or 'no model yet'} on {server.address}"
        return server.run(lambda: print(told, flush=True))
