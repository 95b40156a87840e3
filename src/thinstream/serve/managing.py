"""Requests about models themselves: versions that are kept, compared and gone back to, challengers, promotion."""

import asyncio
import time
from typing import Any

from thinstream.errors import InvalidInputError
from thinstream.serve.comparing import compare
from thinstream.serve.desk import Desk
from thinstream.serve.refusals import Refused
from thinstream.serve.served import require_version
from thinstream.serve.versions import NoVersion
from thinstream.serve.web import Request, Route
from thinstream.serve.wire import fingerprint, from_json, to_json

#: Seconds that a request waits for its change to be answered with, and between two looks.
PATIENCE, LOOK = 30.0, 0.01
#: The version that answers now.
NOW = "now"


def routes(desk: Desk) -> list[Route]:
    """Of all of them."""
    managing = _Managing(desk)
    model = "/v2/models/{name}"
    return [
        desk.route(f"{model}/versions", managing.versions, "read", ("GET",)),
        desk.route(f"{model}/versions", managing.keep, "admin"),
        desk.route(f"{model}/versions/{{version}}/rollback", managing.rollback, "admin"),
        desk.route(f"{model}/versions/{{version}}/compare/{{other}}", managing.compare, "read", ("GET",)),
        desk.route(f"{model}/quarantine", managing.quarantine, "read", ("GET",)),
        desk.route(f"{model}/challengers", managing.challengers, "read", ("GET",)),
        desk.route(f"{model}/challengers/{{challenger}}", managing.challenge, "admin"),
        desk.route(f"{model}/challengers/{{challenger}}", managing.withdraw, "admin", ("DELETE",)),
        desk.route(f"{model}/challengers/{{challenger}}/promote", managing.promote, "admin"),
    ]


class _Managing:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def versions(self, request: Request) -> dict[str, Any]:
        """The versions that are kept, the newest first, and the one that answers."""
        served, snapshot = self._desk.models(request.path_params["name"])
        found = await self._desk.link.ask("rivals", served.name)
        return {"model": served.name, "version": snapshot.about["version"], "versions": found["versions"]}

    async def challengers(self, request: Request) -> dict[str, Any]:
        """How challengers did before each row was learned, and the champion on the same rows."""
        served, _ = self._desk.models(request.path_params["name"])
        found = await self._desk.link.ask("rivals", served.name)
        return {"model": served.name, "challengers": found["challengers"]}

    async def quarantine(self, request: Request) -> dict[str, Any]:
        """Rows that could not be learned: how many there ever were, and the newest with the reason for each."""
        served, _ = self._desk.models(request.path_params["name"])
        return {"model": served.name, **await self._desk.link.ask("quarantine", served.name)}

    async def compare(self, request: Request) -> dict[str, Any]:
        """Two versions, weight by weight; "now" is the one that answers."""
        served, snapshot = self._desk.models(request.path_params["name"])
        asked = [request.path_params[key] for key in ("version", "other")]
        try:
            each = [
                snapshot
                if version in (NOW, str(snapshot.about["version"]))
                else await asyncio.to_thread(self._desk.models.version, served.name, version)
                for version in asked
            ]
        except NoVersion as none:
            raise Refused(404, str(none)) from None
        versions = [each_one.about["version"] for each_one in each]
        one, other = (snapshot.model for snapshot in each)
        found = await asyncio.to_thread(compare, one, other)
        return {"model": served.name, "versions": versions, **found}

    async def keep(self, request: Request) -> dict[str, Any]:
        """The model of now is kept as a version."""
        return await self._change(request, {"what": "keep"})

    async def rollback(self, request: Request) -> dict[str, Any]:
        """Goes back to a version: it answers, and learns what comes; what was learned since is kept as a version."""
        try:
            require_version(request.path_params["version"])
        except NoVersion as none:
            raise Refused(404, str(none)) from None
        return await self._change(request, {"what": "rollback", "version": request.path_params["version"]})

    async def challenge(self, request: Request) -> dict[str, Any]:
        """A model that learns along: a file of it, or {"algorithm": …, "parameters": {…}}."""
        raw = await self._desk.body(request)
        what: dict[str, Any] = {"what": "challenge", "name": request.path_params["challenger"]}
        if request.headers.get("content-type", "").startswith("application/octet-stream"):
            return await self._change(request, what, raw)
        given = from_json(raw)
        allowed = {"algorithm", "parameters", "scale", "normalize"}
        if not isinstance(given, dict) or not {*given} <= allowed:
            raise InvalidInputError(f"a challenger is a model file or an object of {', '.join(sorted(allowed))}")
        return await self._change(request, what | given)

    async def promote(self, request: Request) -> dict[str, Any]:
        """A challenger becomes the champion; what answered until now is kept as a version."""
        return await self._change(request, {"what": "promote", "name": request.path_params["challenger"]})

    async def withdraw(self, request: Request) -> dict[str, Any]:
        """A challenger learns no more."""
        return await self._change(request, {"what": "withdraw", "name": request.path_params["challenger"]})

    async def _change(self, request: Request, what: dict[str, Any], data: bytes = b"") -> dict[str, Any]:
        """Told when it is on disk, and answers go out with it."""
        served, _ = self._desk.models(request.path_params["name"])
        head = to_json(what)
        raw = len(head).to_bytes(4, "little") + head + data
        key = request.headers.get("idempotency-key")
        own = fingerprint(request.path, request.scope["query_string"], raw)
        found = await self._desk.link.ask("change", served.name, request=key, data=raw, fingerprint=own)
        until = time.monotonic() + PATIENCE
        while (version := served.snapshot().about["version"]) < found["entry"] and time.monotonic() < until:
            await asyncio.sleep(LOOK)
        return {"model": served.name, **found, "answers_with": version, "done": version >= found["entry"]}
