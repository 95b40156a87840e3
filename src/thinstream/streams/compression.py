"""Files that may be compressed, told by the ending of their name; the only module that knows zstandard.

Files of several members, one after the other, are read to the end. What is cut short or damaged raises, with the name
of the file: half a stream must not pass for a whole one.
"""

import bz2
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple, cast

from thinstream.errors import InvalidInputError, MissingPackageError

Name = str | os.PathLike[str]
#: Bytes of text decompressed at a time, and of a file read at a time.
BLOCK, CHUNK = 1 << 18, 1 << 16


class _Gzip:
    """Zlib's decompressor in the shape of the others."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(31)  # with the header and checksum of gzip
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        text = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        self.needs_input = not self._stream.unconsumed_tail and len(text) < max_length
        return text

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data


class _Zstd:
    """One frame. It is fed in small pieces, because each comes out whole, be it a thousand times as long."""

    PIECE = 512

    def __init__(self) -> None:
        package = _zstandard()
        self._frame, self._error = package.ZstdDecompressor().decompressobj(), package.ZstdError
        self._held = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        held, at, found, length = self._held + data, 0, [], 0
        try:
            while at < len(held) and length < max_length and not self.eof:
                found.append(self._frame.decompress(held[at : at + self.PIECE]))
                length += len(found[-1])
                at += self.PIECE
        except self._error as error:
            raise ValueError(str(error)) from error
        self._held = held[at:]
        return b"".join(found)

    @property
    def needs_input(self) -> bool:
        return not self._held

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data) + self._held


class Codec(NamedTuple):
    """A way to compress: what makes the decoder and the encoder of a member, with the methods of those of `bz2`."""

    decoder: Callable[[], Any]
    encoder: Callable[[], Any]
    padding: bool = False  # whether zeros may follow a member


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingPackageError(
            "files ending in .zst need the package zstandard: pip install 'thinstream[zstd]'"
        ) from error
    return zstandard


CODECS = {
    ".gz": Codec(_Gzip, lambda: zlib.compressobj(6, zlib.DEFLATED, 31), padding=True),
    ".bz2": Codec(bz2.BZ2Decompressor, bz2.BZ2Compressor),
    ".xz": Codec(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMACompressor, padding=True),
    ".zst": Codec(_Zstd, lambda: _zstandard().ZstdCompressor(write_checksum=True).compressobj()),
}


def ending(path: Name) -> str:
    """How a file is compressed, by its name: ".gz", ".bz2", ".xz", ".zst", or "" if it is not.

    >>> ending("train.libsvm.gz"), ending("train.libsvm")
    ('.gz', '')
    """
    found = os.path.splitext(os.fspath(path))[1].lower()
    return found if found in CODECS else ""


def open_read(path: Name) -> BinaryIO:
    """A file to read bytes from, decompressed if its name ends in .gz, .bz2, .xz or .zst; "-" is standard input.

    Where a compressed file is damaged or cut short, reading raises `InvalidInputError`. Only plain files can be sought
    in. Closing leaves standard input open.
    """
    if os.fspath(path) == "-":
        try:  # without a buffer: a thread that waits would keep its lock
            return cast(BinaryIO, open(_standard(sys.stdin, "standard input"), "rb", buffering=0, closefd=False))
        except io.UnsupportedOperation:  # not a file, but something in memory
            return io.BytesIO(sys.stdin.buffer.read())
    if not ending(path):
        return open(path, "rb")
    codec = CODECS[ending(path)]
    decoder = codec.decoder()  # first, because a package may be missing
    return io.BufferedReader(_Members(open(path, "rb", buffering=0), path, codec, decoder), CHUNK)


def open_write(path: Name, kind: str | None = None) -> BinaryIO:
    """A file to write bytes to, compressed as ``kind`` or its name says (see `open_read`); "-" is standard output.

    The same bytes written give the same file. Closing leaves standard output open.
    """
    if os.fspath(path) == "-":
        try:
            handle = _standard(sys.stdout, "standard output")
            sys.stdout.flush()
            return open(handle, "wb", CHUNK, closefd=False)
        except io.UnsupportedOperation:
            return _Kept()
    kind = ending(path) if kind is None else kind
    if not kind:
        return open(path, "wb")
    encoder = CODECS[kind].encoder()
    return io.BufferedWriter(_Encoding(open(path, "wb"), encoder), BLOCK)


def _standard(stream: Any, what: str) -> int:
    """The number of standard input or output; raises `io.UnsupportedOperation` where it is no file."""
    if stream is None:
        raise InvalidInputError(f"{what} (-) is closed")
    return int(stream.fileno())


class _Kept(io.BytesIO):
    """Standard output that is no file: it gets all at the end, and stays open."""

    def close(self) -> None:
        if not self.closed:
            sys.stdout.buffer.write(self.getvalue())
        super().close()


class _Members(io.RawIOBase):
    """The text of a compressed file, member after member."""

    def __init__(self, file: io.FileIO, path: Name, codec: Codec, decoder: Any) -> None:
        self._file, self._path, self._codec = file, os.fspath(path), codec
        self._decoder = decoder  # None between members
        self._unused, self._text, self._given = b"", memoryview(b""), 0
        self._failure: InvalidInputError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._failure is not None:  # decoders are in no state to go on
            raise self._failure
        while not self._text and (self._decoder or self._begin()):
            self._text = memoryview(self._decode())
        size = min(len(buffer), len(self._text))
        buffer[:size] = self._text[:size]
        self._text = self._text[size:]
        self._given += size
        return size

    def _decode(self) -> bytes:
        """A block of this member's text; may be empty."""
        data = b""
        if self._decoder.needs_input:
            data, self._unused = self._unused or self._file.read(CHUNK) or b"", b""
            if not data:
                raise self._broken("ends in the middle of its compressed data")
        try:
            text: bytes = self._decoder.decompress(data, BLOCK)
        except (zlib.error, lzma.LZMAError, OSError, ValueError) as error:
            raise self._broken(f"is damaged or no {ending(self._path)} file ({error})") from error
        if self._decoder.eof:
            self._unused, self._decoder = self._decoder.unused_data, None
        return text

    def _begin(self) -> bool:
        """Begins the next member; False at the end of the file."""
        zeros = b"\0" if self._codec.padding else b""
        while not (rest := self._unused.lstrip(zeros) if zeros else self._unused):
            self._unused = self._file.read(CHUNK) or b""
            if not self._unused:
                return False
        self._unused = rest
        self._decoder = self._codec.decoder()
        return True

    def _broken(self, what: str) -> InvalidInputError:
        self._failure = InvalidInputError(f"{self._path} {what}, after {self._given} bytes of text")
        return self._failure

    def close(self) -> None:
        self._file.close()
        super().close()


class _Encoding(io.RawIOBase):
    """Compresses what is written to it; closing writes the rest."""

    def __init__(self, file: BinaryIO, encoder: Any) -> None:
        self._file, self._encoder = file, encoder

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write(self._encoder.compress(data))
        return len(data)

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._file.write(self._encoder.flush())
        finally:
            super().close()  # before the file, whose closing may fail: a second attempt finds nothing to do
            self._file.close()
