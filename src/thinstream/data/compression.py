"""Files that may be compressed, according to their extension. This is the only module that imports zstandard.

Files of several members are read to the end. A truncated or damaged file raises an error with the file's name.
"""

import bz2
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple, cast

from thinstream.errors import InvalidInputError, MissingPackageError, install

Name = str | os.PathLike[str]
#: Bytes of text that are decompressed at a time, and bytes of a file that are read at a time.
BLOCK, CHUNK = 1 << 18, 1 << 16


class _Gzip:
    """Zlib's decompressor with the interface of the others."""

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
    """One frame. It is fed in small pieces: the output of a piece comes at once and may be a thousand times as long."""

    PIECE = 512

    def __init__(self) -> None:
        package = _zstandard()
        self._frame, self._error = package.ZstdDecompressor().decompressobj(), package.ZstdError
        self._held = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        held, at, texts, length = self._held + data, 0, [], 0
        try:
            while at < len(held) and length < max_length and not self.eof:
                texts.append(self._frame.decompress(held[at : at + self.PIECE]))
                length += len(texts[-1])
                at += self.PIECE
        except self._error as error:
            raise ValueError(str(error)) from error
        self._held = held[at:]
        return b"".join(texts)

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
    """A compression method: creates decoders and encoders of a member, with the methods of those in `bz2`."""

    decoder: Callable[[], Any]
    encoder: Callable[[], Any]
    padding: bool = False  # whether zeros may follow a member


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingPackageError(f"Files ending in .zst need the package zstandard: {install('zstd')}") from error
    return zstandard


CODECS = {
    ".gz": Codec(_Gzip, lambda: zlib.compressobj(6, zlib.DEFLATED, 31), padding=True),
    ".bz2": Codec(bz2.BZ2Decompressor, bz2.BZ2Compressor),
    ".xz": Codec(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMACompressor, padding=True),
    ".zst": Codec(_Zstd, lambda: _zstandard().ZstdCompressor(write_checksum=True).compressobj()),
}


def ending(path: Name) -> str:
    """Return the extension of a compressed file: ".gz", ".bz2", ".xz", ".zst", or "" if it is not compressed.

    >>> ending("train.libsvm.gz"), ending("train.libsvm")
    ('.gz', '')
    """
    extension = os.path.splitext(os.fspath(path))[1].lower()
    return extension if extension in CODECS else ""


def open_read(path: Name) -> BinaryIO:
    """Open a file to read bytes, decompressed according to its extension; "-" is standard input.

    Reading a damaged or truncated file raises `InvalidInputError`. Only plain files support seeking. Closing leaves
    standard input open.
    """
    if os.fspath(path) == "-":
        try:  # unbuffered, because a waiting thread would keep the buffer's lock
            return cast(BinaryIO, open(_standard(sys.stdin, "standard input"), "rb", buffering=0, closefd=False))
        except io.UnsupportedOperation:  # an object in memory, not a file
            return io.BytesIO(sys.stdin.buffer.read())
    if not ending(path):
        return open(path, "rb")
    codec = CODECS[ending(path)]
    decoder = codec.decoder()  # before opening the file, because a package may be missing
    return io.BufferedReader(_Members(open(path, "rb", buffering=0), path, codec, decoder), CHUNK)


def open_write(path: Name, extension: str | None = None) -> BinaryIO:
    """Open a file to write bytes, compressed according to ``kind`` or its extension; "-" is standard output.

    The same bytes always give the same file. Closing leaves standard output open.
    """
    if os.fspath(path) == "-":
        try:
            handle = _standard(sys.stdout, "standard output")
            sys.stdout.flush()
            return open(handle, "wb", CHUNK, closefd=False)
        except io.UnsupportedOperation:
            return _Kept()
    extension = ending(path) if extension is None else extension
    if not extension:
        return open(path, "wb")
    encoder = CODECS[extension].encoder()
    return io.BufferedWriter(_Encoding(open(path, "wb"), encoder), BLOCK)


def _standard(stream: Any, name: str) -> int:
    """Return the file number of standard input or output; raise `io.UnsupportedOperation` if it is not a file."""
    if stream is None:
        raise InvalidInputError(f"{name} (-) is closed")
    return int(stream.fileno())


class _Kept(io.BytesIO):
    """Standard output that is not a file: it gets everything at the end, and stays open."""

    def close(self) -> None:
        if not self.closed:
            sys.stdout.buffer.write(self.getvalue())
        super().close()


class _Members(io.RawIOBase):
    """The text of a compressed file, member by member."""

    def __init__(self, file: io.FileIO, path: Name, codec: Codec, decoder: Any) -> None:
        self._file, self._path, self._codec = file, os.fspath(path), codec
        self._decoder = decoder  # None between members
        self._unused, self._text, self._given = b"", memoryview(b""), 0
        self._failure: InvalidInputError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._failure is not None:  # decoders cannot continue after an error
            raise self._failure
        while not self._text and (self._decoder or self._begin()):
            self._text = memoryview(self._decode())
        size = min(len(buffer), len(self._text))
        buffer[:size] = self._text[:size]
        self._text = self._text[size:]
        self._given += size
        return size

    def _decode(self) -> bytes:
        """Return a block of this member's text, which may be empty."""
        data = b""
        if self._decoder.needs_input:
            data, self._unused = self._unused or self._file.read(CHUNK) or b"", b""
            if not data:
                raise self._broken("ends in the middle of its compressed data")
        try:
            text: bytes = self._decoder.decompress(data, BLOCK)
        except (zlib.error, lzma.LZMAError, OSError, ValueError) as error:
            raise self._broken(f"is damaged or not a {ending(self._path)} file ({error})") from error
        if self._decoder.eof:
            self._unused, self._decoder = self._decoder.unused_data, None
        return text

    def _begin(self) -> bool:
        """Begin the next member; return False at the end of the file."""
        zeros = b"\0" if self._codec.padding else b""
        while not (rest := self._unused.lstrip(zeros) if zeros else self._unused):
            self._unused = self._file.read(CHUNK) or b""
            if not self._unused:
                return False
        self._unused = rest
        self._decoder = self._codec.decoder()
        return True

    def _broken(self, problem: str) -> InvalidInputError:
        self._failure = InvalidInputError(f"{self._path} {problem}, after {self._given} bytes of text")
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
            super().close()  # before the file, whose closing may fail
            self._file.close()
