"""The root commit of a git repository, read from its files: no child process, standard library only.

Walks first parents from HEAD to the end. The reflog would be cheaper, but git prunes it after 90 days and the
project would become another one. Uses the commit graph where git wrote one, else loose objects and packs.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path

MAX_STEPS = 20_000
"""Commits read one by one, outside the commit graph; more take about a second, then the answer is None."""
_NO_PARENT = 0x70000000
_HEX = frozenset("0123456789abcdef")


def root_commit(common: Path) -> str | None:
    """The first commit of HEAD's history by first parents; None without commits, or when objects are missing.

    `common` is the common git directory (a worktree's main one).
    """
    try:
        head = _head(common)
        return None if head is None else _walk(common / "objects", head, _shallow(common))
    except (OSError, ValueError, IndexError, KeyError, struct.error, zlib.error):
        return None


def _head(common: Path) -> str | None:
    name = (common / "HEAD").read_text(encoding="utf-8").strip()
    for _ in range(5):
        if not name.startswith("ref:"):
            return name if _is_id(name) else None
        name = _ref(common, name.removeprefix("ref:").strip())
    return None


def _ref(common: Path, ref: str) -> str:
    if ".." in ref or ref.startswith("/"):
        return ""
    try:
        return (common / ref).read_text(encoding="utf-8").strip()
    except OSError:
        pass
    try:
        packed = (common / "packed-refs").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return next((line.split(" ", 1)[0] for line in packed.splitlines() if line.endswith(f" {ref}")), "")


def _is_id(text: str) -> bool:
    return len(text) in {40, 64} and set(text) <= _HEX


def _shallow(common: Path) -> frozenset[str]:
    try:
        return frozenset((common / "shallow").read_text(encoding="ascii").split())
    except OSError:
        return frozenset()


@lru_cache(maxsize=256)
def _walk(objects: Path, head: str, shallow: frozenset[str]) -> str | None:
    with _Objects(objects, len(head) // 2) as store:
        commit = bytes.fromhex(head)
        for _ in range(MAX_STEPS):
            position = store.graph.find(commit)
            if position is not None:
                return store.graph.root(position).hex()
            parent = None if commit.hex() in shallow else _first_parent(store.commit(commit))
            if parent is None:
                return commit.hex()
            commit = parent
    return None


def _first_parent(commit: bytes) -> bytes | None:
    for line in commit.split(b"\n", 3)[1:2]:
        if line.startswith(b"parent "):
            return bytes.fromhex(line[7:].decode("ascii"))
    return None


class _Objects:
    """The object folders of a repository and its alternates."""

    def __init__(self, objects: Path, size: int) -> None:
        self.size = size
        self.folders = [objects, *_alternates(objects)]
        self._maps: list[mmap.mmap] = []

    def __enter__(self) -> _Objects:
        return self

    def __exit__(self, *exception: object) -> None:
        for opened in self._maps:
            opened.close()

    def open(self, path: Path) -> mmap.mmap:
        with path.open("rb") as file:
            opened = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(opened)
        return opened

    @cached_property
    def graph(self) -> _Graph:
        return _Graph(self)

    @cached_property
    def packs(self) -> list[_Pack]:
        return [_Pack(self, index) for folder in self.folders for index in sorted((folder / "pack").glob("pack-*.idx"))]

    def commit(self, name: bytes) -> bytes:
        """The commit's text. Raises KeyError for a missing object."""
        text = name.hex()
        for folder in self.folders:
            try:
                raw = zlib.decompress((folder / text[:2] / text[2:]).read_bytes())
            except FileNotFoundError:
                continue
            return raw.partition(b"\0")[2]
        return self.packed(name)

    def packed(self, name: bytes) -> bytes:
        for pack in self.packs:
            offset = pack.find(name)
            if offset is not None:
                return pack.read(offset)
        raise KeyError(name.hex())


def _alternates(objects: Path) -> list[Path]:
    found: list[Path] = []
    queue = [objects]
    while queue and len(found) < 5:
        folder = queue.pop()
        try:
            lines = (folder / "info" / "alternates").read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        queue += [(folder / line).resolve() for line in lines if line and not line.startswith("#")]
        found += [path for path in queue if path not in found]
    return found


class _Ids:
    """A sorted run of object ids behind a fan-out table, as index and commit graph have it."""

    def __init__(self, data: mmap.mmap, fanout: int, ids: int, size: int) -> None:
        self._data, self._fanout, self._ids, self._size = data, fanout, ids, size

    def __len__(self) -> int:
        return int(struct.unpack_from(">I", self._data, self._fanout + 255 * 4)[0])

    def __getitem__(self, position: int) -> bytes:
        start = self._ids + position * self._size
        return self._data[start : start + self._size]

    def find(self, name: bytes) -> int | None:
        low = 0 if name[0] == 0 else struct.unpack_from(">I", self._data, self._fanout + (name[0] - 1) * 4)[0]
        high = struct.unpack_from(">I", self._data, self._fanout + name[0] * 4)[0]
        position = bisect_left(self, name, low, high)
        return position if position < high and self[position] == name else None


class _Graph:
    """The commit graph, one file or a chain of them; positions count through the chain from its base."""

    def __init__(self, store: _Objects) -> None:
        self._size = store.size
        self._files: list[tuple[int, mmap.mmap, _Ids, int]] = []
        first = 0
        for path in self._paths(store.folders[0] / "info"):
            data = store.open(path)
            chunks = dict(self._chunks(data))
            ids = _Ids(data, chunks[b"OIDF"], chunks[b"OIDL"], store.size)
            self._files.append((first, data, ids, chunks[b"CDAT"]))
            first += len(ids)

    @staticmethod
    def _paths(info: Path) -> list[Path]:
        single = info / "commit-graph"
        if single.is_file():
            return [single]
        chain = info / "commit-graphs"
        try:
            names = (chain / "commit-graph-chain").read_text(encoding="ascii").split()
        except OSError:
            return []
        return [chain / f"graph-{name}.graph" for name in names if _is_id(name)]

    @staticmethod
    def _chunks(data: mmap.mmap) -> Iterator[tuple[bytes, int]]:
        if data[:5] != b"CGPH\x01":
            raise ValueError("not a commit graph")
        for number in range(data[6]):
            name, offset = struct.unpack_from(">4sQ", data, 8 + number * 12)
            yield name, offset

    def find(self, name: bytes) -> int | None:
        for first, _, ids, _ in self._files:
            position = ids.find(name)
            if position is not None:
                return first + position
        return None

    def root(self, position: int) -> bytes:
        """Follows first parents inside the graph: it holds every ancestor of what it holds."""
        width = self._size + 16
        total, steps = sum(len(entry[2]) for entry in self._files), 0
        while True:
            first, data, ids, commits = next(entry for entry in reversed(self._files) if entry[0] <= position)
            (parent,) = struct.unpack_from(">I", data, commits + (position - first) * width + self._size)
            if parent == _NO_PARENT:
                return ids[position - first]
            position = parent
            steps += 1
            if steps > total:
                raise ValueError("damaged commit graph")


class _Pack:
    """One pack with its index, version 2."""

    def __init__(self, store: _Objects, index: Path) -> None:
        self._store = store
        self._index = store.open(index)
        if self._index[:8] != b"\xfftOc\x00\x00\x00\x02":
            raise ValueError("not a version 2 index")
        self._path = index.with_suffix(".pack")
        self._ids = _Ids(self._index, 8, 8 + 1024, store.size)

    @cached_property
    def _pack(self) -> mmap.mmap:
        return self._store.open(self._path)

    def find(self, name: bytes) -> int | None:
        position = self._ids.find(name)
        if position is None:
            return None
        count, size = len(self._ids), self._store.size
        small = 8 + 1024 + count * (size + 4)
        (offset,) = struct.unpack_from(">I", self._index, small + position * 4)
        if offset & 0x80000000:
            (offset,) = struct.unpack_from(">Q", self._index, small + count * 4 + (offset & 0x7FFFFFFF) * 8)
        return int(offset)

    def read(self, offset: int, depth: int = 0) -> bytes:
        """The object's content, deltas resolved. Raises ValueError for a chain that is too long."""
        if depth > 60:
            raise ValueError("delta chain too long")
        kind, length, start = self._header(offset)
        if kind in {1, 2, 3, 4}:
            return self._inflate(start, length)
        if kind == 6:
            back, start = _offset(self._pack, start)
            base = self.read(offset - back, depth + 1)
        elif kind == 7:
            name = self._pack[start : start + self._store.size]
            start += self._store.size
            base = self._store.packed(name)
        else:
            raise ValueError("unknown object type")
        return _apply(base, self._inflate(start, length))

    def _header(self, offset: int) -> tuple[int, int, int]:
        byte = self._pack[offset]
        kind, length, shift = (byte >> 4) & 7, byte & 15, 4
        while byte & 0x80:
            offset += 1
            byte = self._pack[offset]
            length |= (byte & 0x7F) << shift
            shift += 7
        return kind, length, offset + 1

    def _inflate(self, start: int, length: int) -> bytes:
        engine = zlib.decompressobj()
        out = b""
        while len(out) < length and not engine.eof:
            chunk = self._pack[start : start + 4096]
            if not chunk:
                raise ValueError("pack cut short")
            out += engine.decompress(chunk, length - len(out))
            start += len(chunk) - len(engine.unconsumed_tail)
        return out


def _offset(data: mmap.mmap, at: int) -> tuple[int, int]:
    """An offset delta's distance and where its data starts."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1


def _size(delta: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = delta[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _apply(base: bytes, delta: bytes) -> bytes:
    """A delta applied to its base."""
    _, at = _size(delta, 0)
    _, at = _size(delta, at)
    out = bytearray()
    while at < len(delta):
        order = delta[at]
        at += 1
        if not order & 0x80:
            out += delta[at : at + order]
            at += order
            continue
        numbers = [0] * 7
        for bit in range(7):
            if order & (1 << bit):
                numbers[bit] = delta[at]
                at += 1
        start = int.from_bytes(numbers[:4], "little")
        length = int.from_bytes(numbers[4:], "little") or 0x10000
        out += base[start : start + length]
    return bytes(out)
