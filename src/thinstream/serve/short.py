"""The short requests, for people: ``POST /predict``, ``/learn``, ``/label``."""

from dataclasses import replace
from typing import Any

import numpy as np

from thinstream.errors import InvalidInputError
from thinstream.serve.asking import TEXT, Said, ids_of, listed_for, read_body, weights_of
from thinstream.serve.desk import Desk
from thinstream.serve.packed import pack
from thinstream.serve.refusals import Refused
from thinstream.serve.served import Served, answers, scores_of
from thinstream.serve.sharing import Snapshot
from thinstream.serve.web import Request, Route
from thinstream.serve.wire import fingerprint


def routes(desk: Desk) -> list[Route]:
    """Of the three."""
    short = _Short(desk)
    return [
        desk.route("/predict", short.predict, "read"),
        desk.route("/learn", short.learn, "learn"),
        desk.route("/label", short.label, "learn"),
    ]


class _Short:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def _said(self, request: Request) -> tuple[Said, Served, Snapshot]:
        said = read_body(await self._desk.body(request), request.headers.get("content-type", ""))
        return said, *self._desk.models(request.query_params.get("model") or said.model)

    def _identity(self, request: Request, said: Said) -> dict[str, str]:
        """The idempotency key of a request, if it has one, and what tells the request from others with that key."""
        key = request.headers.get("idempotency-key") or getattr(said.body, "request", None)
        if key is None:
            return {}
        if not 1 <= len(key) <= self._desk.limits.id:
            raise InvalidInputError(f"an Idempotency-Key may have 1 to {self._desk.limits.id} letters, got {len(key)}")
        own = fingerprint(request.path, request.scope["query_string"], said.raw)
        return {"request": key, "fingerprint": own}

    async def predict(self, request: Request) -> dict[str, Any]:
        """Labels and scores; with ids the rows are kept, on disk, until their labels come."""
        said, served, (model, about) = await self._said(request)
        batch, _, _, one = said.rows(served.reader, labelled=False)
        scores = scores_of(model, batch)
        given = request.query_params.get("id") if said.kind == TEXT else said.body.id
        if given is not None:
            self._desk.require(request, "learn")  # what is stored will be learned
            ids = ids_of(given, len(batch), one, self._desk.limits)
            kept = batch if batch.weights is None else replace(batch, weights=None)
            data = pack(kept, [None] * len(batch), scores)
            await self._desk.link.ask("keep", served.name, ids=ids, data=data)
        return {"model": served.name, "version": about["version"], **answers(model, scores, one)}

    async def learn(self, request: Request) -> dict[str, Any]:
        """Rows and labels; they are on disk when this is answered."""
        said, served, (model, _) = await self._said(request)
        batch, labels, weights, _ = said.rows(served.reader, labelled=True)
        scores_of(model, batch)  # raises on values that cannot be learned
        if weights is not None:
            batch = replace(batch, weights=np.array(weights))
        data = pack(batch, served.known(labels or [], model.classes))
        answer = await self._desk.link.ask("learn", served.name, data=data, **self._identity(request, said))
        return {"model": served.name, **answer}

    async def label(self, request: Request) -> dict[str, Any]:
        """Labels of rows that were predicted with ids; what became of them."""
        said, served, (model, _) = await self._said(request)
        body = said.body
        if said.kind == TEXT:
            raise Refused(422, 'labels are JSON or MessagePack: {"id": …, "y": …}')
        one = not isinstance(body.id, list)
        many = 1 if one else len(body.id)
        if not 1 <= many <= self._desk.limits.rows:
            raise InvalidInputError(f"a request may have 1 to {self._desk.limits.rows:,} labels, got {many:,}")
        ids = ids_of(body.id, many, one, self._desk.limits)
        labels = served.known(listed_for(body.y, many, one, "y"), model.classes)
        weights = None if body.weight is None else weights_of(listed_for(body.weight, many, one, "weight"))
        answer = await self._desk.link.ask(
            "label", served.name, ids=ids, labels=labels, weights=weights, **self._identity(request, said)
        )
        return {"model": served.name, **answer}
