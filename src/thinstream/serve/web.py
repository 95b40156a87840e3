"""Everything of Starlette that the server needs."""

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

__all__ = ["ClientDisconnect", "PlainTextResponse", "Request", "Response", "Route", "Starlette"]
