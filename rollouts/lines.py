"""Streaming reader of JSON lines: plain, `.zst` and `.gz`, complete lines only, damage counted and never raised.

A line is complete when its newline is there. A final line without one is not read, even where it is whole JSON:
its writer may still be at it, and a boundary must never lie inside a line. It is taken once the newline comes.
Offsets are bytes of the uncompressed stream.

Recovered: a byte order mark, CRLF, runs of NUL, bytes that are no UTF-8 and lone surrogates (both become U+FFFD),
NaN, two records on one line, a whole record at the end of a torn one, records printed over several lines.
Skipped and counted: lines over `MAX_LINE`, values that are no objects, everything else that is not blank.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import orjson
import zstandard

from memory.errors import UnreadableRollout
from memory.model import Boundary, ReadReport
from rollouts.repair import repair as repair

Record = dict[str, Any]
Prepare = Callable[[bytes], bytes | None]
"""Sees each line before it is parsed: gives the bytes to parse (the line, or a cheaper part), None to pass it by."""

MAX_LINE = 32 * 1024 * 1024
"""Bytes. A longer line is passed over without being held; it bounds the memory one record can take."""
CHUNK = 256 * 1024
HEAD_BYTES = TAIL_BYTES = 64 * 1024
HEAD_GLANCE = 32 * 1024
GLANCE = 8 * 1024
"""What is read of either end at once: enough for most sessions, a fraction of the cost of 64 KiB."""
FIRST_LINE_BYTES = 1024 * 1024
"""The first and the last line may be this long and still be seen by `Ends` (a first line can carry a whole prompt)."""

_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
"""A FIFO put in a file's place must not hang the walk."""
_BOM = b"\xef\xbb\xbf"
_STREAM_ERRORS = (OSError, EOFError, zstandard.ZstdError, zlib.error)


class Readable(Protocol):
    """The part of a binary file that a pass needs."""

    def read(self, size: int = -1, /) -> bytes: ...


def _unopened(path: Path, error: OSError) -> UnreadableRollout:
    return UnreadableRollout(
        f"{path} cannot be opened ({type(error).__name__}).", hint="Check that it exists and may be read."
    )


@contextmanager
def open_stream(path: Path) -> Iterator[Readable]:
    """The uncompressed bytes of a session file. Raises UnreadableRollout where it cannot be opened."""
    try:
        raw = path.open("rb", buffering=0)
    except OSError as error:
        raise _unopened(path, error) from None
    with raw:
        if path.suffix == ".zst":
            yield zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        elif path.suffix == ".gz":
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked
        else:
            yield raw


def prefix_hash(path: Path, offset: int) -> str:
    """sha256 hex of the first `offset` bytes, as in `Boundary.prefix_hash`; "" for 0 or for a shorter file."""
    digest = hashlib.sha256()
    left = offset
    with open_stream(path) as stream:
        while left > 0:
            try:
                chunk = stream.read(min(CHUNK, left))
            except _STREAM_ERRORS:
                return ""
            if not chunk:
                return ""
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest() if offset > 0 else ""


class Lines:
    """One pass over a file: iterate it once, then ask for the `boundary`.

    Yields `(offset, record)`; a line that holds two records yields both with the same offset. `limit` stops at the
    last line that ends at or before that byte. Damage goes to `report`. Raises UnreadableRollout where the file
    cannot be opened or its stream breaks before its first complete line.
    """

    def __init__(
        self,
        path: Path,
        report: ReadReport,
        *,
        limit: int | None = None,
        prepare: Prepare | None = None,
        max_line: int = MAX_LINE,
    ) -> None:
        self._path = path
        self._report = report
        self._limit = limit
        self._prepare = prepare
        self._max_line = max_line
        self._offset = 0
        self._hash = hashlib.sha256()
        self._records = _Records(report, prepare, max_line)

    def boundary(self, events: int) -> Boundary:
        """Where the complete lines (and whole records) read so far end."""
        open_at = self._records.open_at
        if open_at is not None:
            return Boundary(open_at, events, prefix_hash(self._path, open_at))
        return Boundary(self._offset, events, self._hash.hexdigest() if self._offset else "")

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        for start, block in self._blocks():
            yield from self._records.of(start, block)
        if self._records.open_at is not None and self._limit is None:
            self._report.partial_tail = 1
        self._report.bytes = self.boundary(0).offset

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Runs of complete lines without their last newline. Keeps offset and hash at the end of each run."""
        held: list[bytes] = []  # the beginning of a line whose end has not been read
        size = 0
        before: Any = None  # the hash as it was before a line too long to hold; None while lines are held
        with open_stream(self._path) as stream:
            for chunk in self._chunks(stream):
                first = chunk.find(b"\n")
                if first < 0:
                    size += len(chunk)
                    held.append(chunk)
                    if size > self._max_line:
                        before = before or self._hash.copy()
                        self._drop(held)
                    continue
                if size + first > self._max_line:
                    held.append(chunk[: first + 1])
                    self._drop(held)
                    self._offset += size + first + 1
                    self._report.oversized += 1
                    self._report.lines += 1
                    before, size, chunk = None, 0, chunk[first + 1 :]
                last = chunk.rfind(b"\n")
                if last < 0:
                    held, size = ([chunk], len(chunk)) if chunk else ([], 0)
                    continue
                held.append(chunk[: last + 1])
                block = b"".join(held)
                held, size = [chunk[last + 1 :]], len(chunk) - last - 1
                self._hash.update(block)
                start, self._offset = self._offset, self._offset + len(block)
                yield start, block
        if before is not None:
            self._hash = before
        if size and self._limit is None and (before is not None or any(part.strip() for part in held)):
            self._report.partial_tail = 1

    def _drop(self, held: list[bytes]) -> None:
        for part in held:
            self._hash.update(part)
        held.clear()

    def _chunks(self, stream: Readable) -> Iterator[bytes]:
        left = self._limit
        while left is None or left > 0:
            try:
                chunk = stream.read(CHUNK if left is None else min(CHUNK, left))
            except _STREAM_ERRORS as error:
                self._damaged(error)
                return
            if not chunk:
                return
            if left is not None:
                left -= len(chunk)
            yield chunk

    def _damaged(self, error: Exception) -> None:
        """A stream that breaks off is read up to there; one that gives nothing at all is no rollout."""
        if self._offset == 0:
            raise UnreadableRollout(
                f"{self._path} cannot be read ({type(error).__name__}).", hint="The file is damaged or no session."
            ) from None
        self._report.notes.append(f"the stream breaks off after byte {self._offset} ({type(error).__name__})")


class _Records:
    """Lines to records, with what a record that spans lines needs to remember."""

    def __init__(self, report: ReadReport, prepare: Prepare | None, max_line: int) -> None:
        self._report = report
        self._prepare = prepare
        self._max_line = max_line
        self._gathered: list[bytes] = []
        self._gathered_size = 0
        self.open_at: int | None = None
        """Offset of a record printed over several lines whose end has not come yet."""

    def of(self, start: int, block: bytes) -> Iterator[tuple[int, Record]]:
        """Records of a run of complete lines that begins at byte `start`; `block` may end with its last newline."""
        report, prepare, loads, gathered = self._report, self._prepare, orjson.loads, self._gathered
        offset = start
        if start == 0 and block.startswith(_BOM):
            offset, block = len(_BOM), block[len(_BOM) :]
        wanted: bytes | None
        for line in block.split(b"\n"):
            here = offset
            offset += len(line) + 1
            if not line:
                continue
            if gathered:
                yield from self._gather(here, line)
                continue
            wanted = line if prepare is None else prepare(line)
            if wanted is None:
                report.lines += 1
                continue
            try:
                record = loads(wanted)
            except orjson.JSONDecodeError:
                yield from self._repair(here, line)
                continue
            report.lines += 1
            if type(record) is dict:
                yield here, record
            else:
                report.not_objects += 1

    def _repair(self, offset: int, line: bytes) -> Iterator[tuple[int, Record]]:
        if not line or line.isspace():
            return
        if line.rstrip() == b"{":
            self._gathered.append(line)
            self._gathered_size = len(line)
            self.open_at = offset
            return
        self._report.lines += 1
        for value in repair(line, self._report):
            if type(value) is dict:
                yield offset, value
            else:
                self._report.not_objects += 1

    def _gather(self, offset: int, line: bytes) -> Iterator[tuple[int, Record]]:
        """A record printed with indentation ends where its closing brace stands at the start of a line."""
        at, whole = self.open_at or 0, line.startswith(b"}")
        if not whole and not line.startswith(b"{") and self._gathered_size <= self._max_line:
            self._gathered.append(line)
            self._gathered_size += len(line) + 1
            return
        text = b"\n".join([*self._gathered, line] if whole else self._gathered)
        self._gathered.clear()
        self.open_at = None
        if whole:
            self._report.lines += 1
            for value in repair(text, self._report):
                if type(value) is dict:
                    yield at, value
        else:
            self._report.bad_json += 1
            yield from self.of(offset, line)


# -- the two ends of a file -----------------------------------------------------------------------------


class Ends:
    """The head and the tail of a file: the outermost bytes read at once, the rest read and parsed as asked for.

    `head` gives the complete lines of the first 64 KiB (or of as much as the first line takes), `tail` those of the
    last 64 KiB. Plain files cost one opening and two reads as a rule; compressed ones are streamed through, for
    their end has no other way. Raises UnreadableRollout where the file cannot be opened or read.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        """Bytes of the uncompressed stream as they were read."""
        self._path = path
        self._name = os.fspath(path)
        self._head = self._tail = b""
        self._tail_start = 0
        self._head_ends = False
        """Whether no more is to be read for the head."""
        if self._name.endswith((".zst", ".gz")):
            self._unpack()
        else:
            self._glance()

    @property
    def whole(self) -> bool:
        """Whether `head` covers the complete lines of the whole file."""
        if self.size > HEAD_BYTES and not self._head_ends and b"\n" not in self._head:
            self._more_head()
        return self.size <= max(HEAD_BYTES, len(self._head))

    @property
    def tail_bytes(self) -> bytes:
        """The complete lines at the end of the file as far as they were read: `GLANCE` bytes or more."""
        return _complete(self._tail, self._tail_start)

    def head(self, report: ReadReport) -> Iterator[tuple[int, Record]]:
        """Records from the start, first to last."""
        records, position = _Records(report, None, MAX_LINE), 0
        while True:
            end = self._head.find(b"\n", position)
            if end >= 0:
                here, position = position, end + 1
                line = self._head[here:end]
                record = _plain(line) if records.open_at is None else None
                if record is None:
                    yield from records.of(here, line)
                else:
                    report.lines += 1
                    yield here, record
            elif self._head_ends:
                return
            else:
                self._more_head()

    def tail(self, report: ReadReport) -> Iterator[Record]:
        """Records from the end, last to first."""
        if self._head.lstrip(_BOM)[:2].rstrip() == b"{":
            while self._more_tail(found=bool(self.tail_bytes)):
                pass
            records = _Records(report, None, MAX_LINE)
            yield from reversed([record for _, record in records.of(1, self.tail_bytes)])
            return
        found = False
        end = self._tail_start + self._tail.rfind(b"\n") + 1
        while True:
            stop = end - self._tail_start
            start = self._tail.rfind(b"\n", 0, stop - 1) + 1 if stop > 0 else 0
            if stop > 0 and (start > 0 or self._tail_start == 0):
                found = True
                line, end = self._tail[start:stop], self._tail_start + start
                if (record := _plain(line)) is not None:
                    report.lines += 1
                    yield record
                    continue
                for _, record in reversed(list(_Records(report, None, MAX_LINE).of(1, line))):
                    yield record
            elif not self._more_tail(found=found):
                return
            elif not found:
                end = self._tail_start + self._tail.rfind(b"\n") + 1

    def _glance(self) -> None:
        """One opening, as few system calls as will do: a first walk does this for every file there is."""
        try:
            file = os.open(self._name, os.O_RDONLY | _NONBLOCK)
            try:
                self._head = os.read(file, HEAD_GLANCE)
                self.size = os.fstat(file).st_size
                if self.size > len(self._head):
                    self._tail_start = self.size - GLANCE
                    self._tail = os.pread(file, GLANCE, self._tail_start)
                else:
                    self._tail, self.size, self._head_ends = self._head, len(self._head), True
            finally:
                os.close(file)
        except OSError as error:
            raise _unopened(self._path, error) from None

    def _more_head(self) -> None:
        """Up to 64 KiB; further while the first line has not ended, and then 64 KiB beyond it."""
        length = HEAD_BYTES
        while True:
            self._head = self._range(0, min(length, self.size))
            if b"\n" in self._head or len(self._head) >= min(self.size, FIRST_LINE_BYTES):
                break
            length += HEAD_BYTES
        if length > HEAD_BYTES:
            self._head = self._range(0, min(length + HEAD_BYTES, self.size))
        self._head_ends = True

    def _more_tail(self, *, found: bool) -> bool:
        """Up to 64 KiB; further only where there was no complete line in it. False where there is no more to read."""
        length = len(self._tail)
        if self._tail_start == 0 or (length >= TAIL_BYTES and (found or length >= FIRST_LINE_BYTES)):
            return False
        wanted = TAIL_BYTES if length < TAIL_BYTES else 4 * length
        self._tail_start = max(0, self.size - wanted)
        self._tail = self._range(self._tail_start, self.size - self._tail_start)
        return True

    def _range(self, start: int, length: int) -> bytes:
        try:
            with self._path.open("rb", buffering=0) as raw:
                raw.seek(start)
                return _read_up_to(raw, length)
        except OSError as error:
            raise _unopened(self._path, error) from None

    def _unpack(self) -> None:
        """Streams a compressed file through, holding its first 64 KiB and its last."""
        self._head_ends = True
        with open_stream(self._path) as stream:
            try:
                head = _read_up_to(stream, HEAD_BYTES)
                while b"\n" not in head and len(head) < FIRST_LINE_BYTES:
                    more = _read_up_to(stream, HEAD_BYTES)
                    if not more:
                        break
                    head += more
                if len(head) > HEAD_BYTES:
                    head += _read_up_to(stream, HEAD_BYTES)
                after = stream.read(1)
                self._head, self.size = head, len(head)
                self._tail = self._stream_through(stream, head, after) if after else head
            except _STREAM_ERRORS as error:
                raise UnreadableRollout(
                    f"{self._path} cannot be read ({type(error).__name__}).", hint="The file is damaged or no session."
                ) from None

    def _stream_through(self, stream: Readable, head: bytes, after: bytes) -> bytes:
        kept = bytearray(head[-FIRST_LINE_BYTES:] + after)
        self.size = len(head) + len(after)
        while chunk := stream.read(CHUNK):
            self.size += len(chunk)
            kept += chunk
            if len(kept) > 2 * FIRST_LINE_BYTES:
                del kept[:-FIRST_LINE_BYTES]
        for length in (TAIL_BYTES, FIRST_LINE_BYTES):
            part = bytes(kept[-length:])
            if tail := _complete(part, self.size - len(part)):
                return tail
        return b""


def _plain(line: bytes) -> Record | None:
    """The object a line is; None where it takes more to read it."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return record if type(record) is dict else None


def _read_up_to(stream: Readable, size: int) -> bytes:
    """`size` bytes, fewer only at the end: a raw file and a decompressor may give less than asked for."""
    data = stream.read(size)
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def _complete(data: bytes, start: int) -> bytes:
    """The complete lines in a piece of a file that begins at byte `start`."""
    first = 0 if start == 0 else data.find(b"\n") + 1
    last = data.rfind(b"\n") + 1
    return data[first:last] if last > first and (first or start == 0) else b""
