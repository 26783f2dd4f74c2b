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
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import orjson
import zstandard

from memory.errors import UnreadableRollout
from memory.model import Boundary, ReadReport

Record = dict[str, Any]
Prepare = Callable[[bytes], bytes | None]
"""Sees each line before it is parsed: gives the bytes to parse (the line, or a cheaper part), None to pass it by."""

MAX_LINE = 32 * 1024 * 1024
"""Bytes. A longer line is passed over without being held; it bounds the memory one record can take."""
CHUNK = 256 * 1024
HEAD_BYTES = TAIL_BYTES = 64 * 1024
FIRST_LINE_BYTES = 1024 * 1024
"""The first and the last line may be this long and still be seen by `Ends` (a first line can carry a whole prompt)."""

_BOM = b"\xef\xbb\xbf"
_STREAM_ERRORS = (OSError, EOFError, zstandard.ZstdError, zlib.error)


class Readable(Protocol):
    """The part of a binary file that a pass needs."""

    def read(self, size: int = -1, /) -> bytes: ...


@contextmanager
def open_stream(path: Path) -> Iterator[Readable]:
    """The uncompressed bytes of a session file. Raises UnreadableRollout where it cannot be opened."""
    try:
        raw = path.open("rb", buffering=0)
    except OSError as error:
        raise UnreadableRollout(
            f"{path} cannot be opened ({type(error).__name__}).", hint="Check that it exists and may be read."
        ) from None
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


# -- damaged lines --------------------------------------------------------------------------------------

_DECODER = json.JSONDecoder(strict=False)
_ESCAPES = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_RECORD_START = re.compile(
    r'\{"(?:type|timestamp|parentUuid|uuid|id|ordinal|record_type|sessionId|isSidechain|messageId|number|role)"'
)
_MAX_ATTEMPTS = 256
_JSON_ERRORS = (ValueError, RecursionError)


def repair(line: bytes, report: ReadReport) -> list[object]:
    """The JSON values that a line holds which is not plain JSON; counts what was replaced or lost in `report`."""
    text = _as_text(line, report)
    for decode in (orjson.loads, _DECODER.decode):
        try:
            return [decode(text)]
        except _JSON_ERRORS:
            continue
    return _values(text, report)


def _as_text(line: bytes, report: ReadReport) -> str:
    """UTF-8 text without NULs and lone surrogates."""
    replaced = False
    if b"\0" in line:
        line, replaced = line.replace(b"\0", b""), True
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text, replaced = line.decode(errors="replace"), True
    if "\\ud" in text or "\\uD" in text:
        mended = _ESCAPES.sub(lambda match: match[0] if match[1] is None else "\\ufffd", text)
        text, replaced = mended, replaced or mended != text
    if replaced:
        report.replaced_text += 1
    return text


def _values(text: str, report: ReadReport) -> list[object]:
    """Records glued together, and whole records after a torn one.

    A record found inside a torn one counts only when it reaches the end of the line or the next record, so that a
    part of the torn record never passes for a record of its own.
    """
    found: list[object] = []
    position, budget, broken, searched = 0, 4 * len(text) + 65_536, False, False
    for _ in range(_MAX_ATTEMPTS):
        position = _past_blanks(text, position)
        if position >= len(text) or budget <= 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, position)
        except _JSON_ERRORS as error:
            broken = searched = True
            budget -= getattr(error, "pos", len(text)) - position
        else:
            budget -= end - position
            follows = _past_blanks(text, end)
            if not searched or follows >= len(text) or text[follows] == "{":
                found.append(value)
                position, searched = end, False
                continue
        start = _RECORD_START.search(text, position + 1)
        if start is None:
            broken = True
            break
        position = start.start()
    if broken or not found:
        report.bad_json += 1
    return found


def _past_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


# -- the two ends of a file -----------------------------------------------------------------------------


class Ends:
    """The head and the tail of a file: read at once, parsed as far as asked for.

    Plain files cost two reads; compressed ones are streamed through, for their end has no other way. Raises
    UnreadableRollout where the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.whole = False
        """Whether `head` covers the complete lines of the whole file."""
        self.size = 0
        """Bytes of the uncompressed stream as they were read."""
        with open_stream(path) as stream:
            try:
                self._head, self._tail = self._read(path, stream)
            except _STREAM_ERRORS as error:
                raise UnreadableRollout(
                    f"{path} cannot be read ({type(error).__name__}).", hint="The file is damaged or no session."
                ) from None

    @property
    def tail_bytes(self) -> bytes:
        """The complete lines of the tail as they stand in the file."""
        return self._tail

    def head(self, report: ReadReport) -> Iterator[tuple[int, Record]]:
        """Records from the start, first to last."""
        return _Records(report, None, MAX_LINE).of(0, self._head)

    def tail(self, report: ReadReport) -> Iterator[Record]:
        """Records from the end, last to first."""
        if self._head.lstrip(_BOM)[:2].rstrip() == b"{":
            begin = 0 if self._tail.startswith(b"{\n") else self._tail.find(b"\n{\n") + 1
            records = _Records(report, None, MAX_LINE)
            yield from reversed([record for _, record in records.of(1, self._tail[begin:])])
            return
        end = len(self._tail)
        while end > 0:
            start = self._tail.rfind(b"\n", 0, end - 1) + 1
            line = self._tail[start:end]
            end = start
            for _, record in reversed(list(_Records(report, None, MAX_LINE).of(1, line))):
                yield record

    def _read(self, path: Path, stream: Readable) -> tuple[bytes, bytes]:
        """Complete lines of both ends."""
        head = _read_up_to(stream, HEAD_BYTES)
        while b"\n" not in head and len(head) < FIRST_LINE_BYTES:
            more = _read_up_to(stream, HEAD_BYTES)
            if not more:
                break
            head += more
        if len(head) > HEAD_BYTES:
            head += _read_up_to(stream, HEAD_BYTES)
        after = stream.read(1)
        lines = head[: head.rfind(b"\n") + 1]
        if not after:
            self.whole, self.size = True, len(head)
            return lines, lines
        if path.suffix in {".zst", ".gz"}:
            return lines, self._stream_through(stream, head, after)
        return lines, self._seek(path)

    def _seek(self, path: Path) -> bytes:
        with path.open("rb", buffering=0) as raw:
            self.size = size = raw.seek(0, 2)
            length = TAIL_BYTES
            while True:
                start = max(0, size - length)
                raw.seek(start)
                tail = _complete(_read_up_to(raw, size - start), start)
                if tail or start == 0 or length >= FIRST_LINE_BYTES:
                    return tail
                length *= 4

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
