"""The dashboard: a page that shows a model while it learns. This module has its files and their security policy."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

#: Files of the page, by request path.
PATHS = {
    "/": "index.html",
    "/dashboard/style.css": "style.css",
    "/dashboard/charts.js": "charts.js",
    "/dashboard/page.js": "page.js",
}
_KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_POLICY = (
    "default-src 'none'; img-src data:; script-src {}; style-src {}; connect-src {}; base-uri 'none'; "
    "form-action 'none'"
)
#: Sent with each file.
HEADERS = {
    "Content-Security-Policy": _POLICY.format("'self'", "'self'", "'self'") + "; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Asset(NamedTuple):
    content: bytes
    content_type: str


@cache
def asset(path: str) -> Asset:
    """Return the file for a path; raise `KeyError` if there is none.

    >>> asset("/").content_type, asset("/dashboard/page.js").content[:2]
    ('text/html; charset=utf-8', b'//')
    """
    name = PATHS[path]
    content = (files("thinstream.serve.dashboard") / "assets" / name).read_bytes()
    return Asset(content, _KINDS[name.rpartition(".")[2]])


def standalone(data: dict[str, Any], title: str) -> str:
    """Return the page as one file that shows the given data and may load nothing else."""
    text, style = asset("/").content.decode(), asset("/dashboard/style.css").content.decode()
    scripts = [asset(f"/dashboard/{name}.js").content.decode() for name in ("charts", "page")]
    text_of_data = json.dumps(data | {"title": title}, allow_nan=False).replace("<", "\\u003c")
    policy = _POLICY.format(" ".join(map(_hashed, scripts)), _hashed(style), "'none'")
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    tail = f'<script type="application/json" id="data">{text_of_data}</script>\n'
    tail += "\n".join(f"<script>{script}</script>" for script in scripts)
    for name, (old, new) in {
        "style.css": ('<link rel="stylesheet" href="/dashboard/style.css">', head),
        "charts.js": ('<script src="/dashboard/charts.js" defer></script>\n', ""),
        "page.js": ('<script src="/dashboard/page.js" defer></script>\n', ""),
        "the end": ("</body>", f"{tail}\n</body>"),
    }.items():
        assert text.count(old) == 1, name
        text = text.replace(old, new)
    return text


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
