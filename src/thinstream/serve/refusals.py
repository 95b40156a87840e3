"""Requests that are not answered as asked, and why."""

from thinstream.errors import ThinstreamError


class Refused(ThinstreamError):
    """A status of HTTP and what to say: what is wrong, what is allowed, what was given, where."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after
