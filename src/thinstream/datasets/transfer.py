"""Download one file over https, or http on this machine: resumed, complete, or an error."""

import http.client
import ipaddress
import os
import re
import shutil
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from thinstream.errors import DownloadError

_BLOCK = 1 << 18
_PAGE = (b"<!doctype", b"<html")


def fetch(url: str, target: Path, timeout: float, progress: Callable[[str, int, int | None], None] | None) -> None:
    """Download ``url`` to ``target``, resuming an earlier call."""
    state = target.with_name(target.name + ".from")
    have, tag = _left(url, target, state)
    try:
        response = _open(url, timeout, have, tag)
    except HTTPError as error:
        with error:
            if error.code == 416 and have:
                if _range(error.headers)[1] != have:
                    state.unlink()  # the partial file does not belong to the server's version
                    return fetch(url, target, timeout, progress)
            else:
                raise DownloadError(
                    f"{url} cannot be downloaded: the server responded {error.code} {error.reason}"
                ) from error
    except DownloadError:  # a redirect that is not allowed
        raise
    except (URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(f"{url} cannot be downloaded: {reason}") from error
    else:
        with response:
            if response.status == 206:
                start, total = _range(response.headers)
                if start != have:
                    raise DownloadError(f"{url}: the server sent other bytes than those requested, from {have} on")
            else:
                have, length = 0, response.headers.get("Content-Length") or ""
                total = int(length) if length.isdigit() else None
            if not have:  # a tag of another version must not be stored for these bytes
                state.unlink(missing_ok=True)
                target.unlink(missing_ok=True)
                state.write_text(f"{url}\n{_tag(response.headers)}\n", encoding="utf-8")
            _receive(response, url, target, have, total, progress)
    _refuse_page(url, target)
    state.unlink()


def allowed(url: str) -> str:
    """Return the URL if it may be downloaded: https, or http on this machine.

    >>> allowed("http://example.org/a9a")
    Traceback (most recent call last):
    thinstream.errors.DownloadError: only https URLs are allowed (http only on this machine), got
    'http://example.org/a9a'
    """
    parts = urlsplit(url)
    if (parts.scheme == "https" and parts.hostname) or (parts.scheme == "http" and _is_here(url)):
        return url
    raise DownloadError(f"only https URLs are allowed (http only on this machine), got {url!r}")


class _Redirects(HTTPRedirectHandler):
    """Follows only redirects to allowed URLs."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        return super().redirect_request(req, fp, code, msg, headers, allowed(newurl))


def _open(url: str, timeout: float, have: int, tag: str) -> Any:
    request = Request(allowed(url), headers={"User-Agent": "thinstream", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", tag)  # if the file has changed, the server sends all of it
    proxies = [ProxyHandler({})] if _is_here(url) else []
    return build_opener(_Redirects(), *proxies).open(request, timeout=timeout)


def _receive(
    response: Any,
    url: str,
    target: Path,
    have: int,
    total: int | None,
    progress: Callable[[str, int, int | None], None] | None,
) -> None:
    free = shutil.disk_usage(target.parent).free
    if total is not None and total - have > free:
        raise DownloadError(f"{url} needs {total - have:,} bytes, but {target.parent} has only {free:,} bytes free")
    broken = None
    with target.open("ab") as out:
        while True:
            if progress is not None:
                progress(target.name, have, total)
            try:
                block = response.read(_BLOCK)
            except (http.client.HTTPException, OSError) as error:
                broken, block = error, b""
            if not block:
                break
            try:
                out.write(block)
            except OSError as error:
                raise DownloadError(f"cannot write {target}: {error.strerror}") from error
            have += len(block)
        out.flush()
        os.fsync(out.fileno())
    if broken is not None or (total is not None and have != total):
        expected = "an unknown number of" if total is None else f"{total:,}"
        why = f" ({broken})" if isinstance(broken, OSError) else ""
        if total is not None and have > total:
            target.unlink()
        raise DownloadError(
            f"the download of {url} was interrupted after {have:,} of {expected} bytes{why}. Repeat it to resume."
        )


def _refuse_page(url: str, target: Path) -> None:
    """Raise if the file is a web page, which some servers send if a file was moved."""
    with target.open("rb") as stream:
        head = stream.read(256)
    if head.lstrip().lower().startswith(_PAGE):
        target.unlink()
        raise DownloadError(f"{url} is a web page, not data. The file has moved, or needs a login.")


def _left(url: str, target: Path, state: Path) -> tuple[int, str]:
    """Return the bytes from an earlier call, and the tag of their version; 0 if the download cannot be resumed."""
    try:
        source, tag, *_ = [*state.read_text(encoding="utf-8").splitlines(), "", ""]
        return (target.stat().st_size, tag) if source == url and tag else (0, "")
    except OSError:
        return 0, ""


def _tag(headers: Message) -> str:
    tag: str = headers.get("ETag") or ""
    if not tag.startswith('"'):  # weak tags do not guarantee identical bytes
        tag = headers.get("Last-Modified") or ""
    return tag


def _range(headers: Message) -> tuple[int | None, int | None]:
    """Return the offset of an answer's bytes and the total size; None if the server does not state them."""
    match = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", headers.get("Content-Range") or "")
    start, whole = match.groups() if match else (None, None)
    return None if start is None else int(start), None if whole is None else int(whole)


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
