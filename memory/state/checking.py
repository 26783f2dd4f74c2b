"""Is an SQLite database whole? Looked at before the first write of a process, read-only [X11].

Three things SQLite itself does not say when it opens a file: pages that contradict each other are met only when a
statement comes to them; a write-ahead log that was damaged is cut off at the damage without a word, so that what had
been committed is gone; a file cut short reads as far as it goes.
"""

from __future__ import annotations

import sqlite3
import struct
import time
from contextlib import suppress
from pathlib import Path

WAL_HEADER = 32
FRAME_HEADER = 24
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
"""First word of a log -> byte order of its checksums."""
_LOOKS = (0.0, 0.1, 0.4, 0.8)
"""Seconds before each look at a log that seems damaged. A process that commits writes frames first and counts them
after the flush; damage stays as it is."""


def whole(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether pages, indexes and log of an open database are as SQLite left them.

    `connection` has read something already, so the index of the log is there. Costs about 4 ms for each MB.
    """
    if not _log_whole(path):
        return False
    found = connection.execute("PRAGMA quick_check(1)").fetchone()
    return found is not None and found[0] == "ok"


def _log_whole(path: Path) -> bool:
    """Whether SQLite took every transaction that stands in the write-ahead log."""
    seen: set[tuple[int | None, int]] = set()
    for pause in _LOOKS:
        time.sleep(pause)
        wanted = _committed(path.with_name(f"{path.name}-wal"))
        taken = _taken(path.with_name(f"{path.name}-shm"), wanted or 0)
        if wanted is not None and wanted <= taken:
            return True
        seen.add((wanted, taken))
    return len(seen) > 1


def _committed(log: Path) -> int | None:
    """The number of the last frame that ends a transaction of the log's present round; None: its header is damaged."""
    try:
        with log.open("rb") as file:
            head = file.read(WAL_HEADER)
            if len(head) < WAL_HEADER:
                return 0
            size = int.from_bytes(head[8:12], "big")
            order = _MAGIC.get(int.from_bytes(head[:4], "big"))
            if order is None or not 512 <= size <= 65_536 or _checksum(head[:24], order) != head[24:32]:
                # Without a frame behind it nothing can be missing.
                return None if file.read(1) else 0
            last = number = 0
            while len(frame := file.read(FRAME_HEADER)) == FRAME_HEADER:
                number += 1
                if frame[8:16] == head[16:24] and frame[4:8] != b"\0\0\0\0":
                    last = number
                file.seek(size, 1)
            return last
    except OSError:
        return 0


def _checksum(data: bytes, order: str) -> bytes:
    first = second = 0
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for left, right in zip(words[::2], words[1::2], strict=True):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    return struct.pack(">II", first, second)


def _taken(index: Path, wanted: int) -> int:
    """How many frames SQLite holds for valid, from the log's index; `wanted` where there is no index to ask."""
    if not wanted:
        return 0
    with suppress(OSError):
        with index.open("rb") as file:
            head = file.read(48)
        if len(head) == 48 and head[12]:
            return int(struct.unpack("=I", head[16:20])[0])
    return wanted
