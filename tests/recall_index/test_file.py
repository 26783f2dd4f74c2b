"""The file: whole or not at all, readers without locks, damage noticed."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from recall.index import rank
from recall.index.build import build, rows_of
from recall.index.file import IndexFile, Rows, UnusableIndex, write
from recall.index.unit import Scope, Unit


def rows(word: str, count: int = 20) -> Rows:
    units = [Unit(f"u{n}", f"g{n % 3}", f"{word} number {n}", scope=Scope((f"p{n % 2}",))) for n in range(count)]
    return rows_of(units, {"word": word})


def test_what_was_written_is_read(tmp_path: Path) -> None:
    built = build(tmp_path / "i.db", rows("alpha"))
    index = IndexFile.open(tmp_path / "i.db")
    assert (built.units, len(index), built.groups, len(index.groups)) == (20, 20, 6, 6)
    assert index.meta["word"] == "alpha"
    (number,) = index.find("u7")
    assert index.unit(number) == Unit("u7", "g1", "alpha number 7", scope=Scope(("p1",)))
    assert index.find("nobody") == []


@pytest.mark.fault("M56")
def test_the_file_is_private_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    build(tmp_path / "i.db", rows("alpha"))
    IndexFile.open(tmp_path / "i.db").close()
    assert [path.name for path in tmp_path.iterdir()] == ["i.db"]
    assert stat.S_IMODE((tmp_path / "i.db").stat().st_mode) == 0o600


def test_an_open_reader_keeps_the_old_index_while_a_new_one_takes_its_place(tmp_path: Path) -> None:
    build(tmp_path / "i.db", rows("alpha"))
    old = IndexFile.open(tmp_path / "i.db")
    build(tmp_path / "i.db", rows("beta"))
    assert rank.search(old, "alpha")
    assert not rank.search(old, "beta")
    assert rank.search(IndexFile.open(tmp_path / "i.db"), "beta")


@pytest.mark.parametrize("damage", ["missing", "empty", "text", "cut", "holes", "link", "folder", "format"])
def test_an_index_that_cannot_be_used_says_so(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "i.db"
    build(path, rows("alpha", 500))
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_bytes(b"no database " * 1000)
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 3])
    elif damage == "holes":
        path.write_bytes(data[:100] + bytes(len(data) - 100))
    elif damage == "link":
        path.rename(tmp_path / "other")
        path.symlink_to(tmp_path / "other")
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.unlink()
        write(path, rows("alpha")._replace(meta={"format": "0"}))
    with pytest.raises(UnusableIndex):
        rank.search(IndexFile.open(path), "alpha number")


def test_a_disk_that_refuses_leaves_the_old_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "i.db"
    build(path, rows("alpha"))

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        build(path, rows("beta"))
    assert rank.search(IndexFile.open(path), "alpha")
    assert [entry.name for entry in tmp_path.iterdir()] == ["i.db"]


def _build(path: Path, word: str, times: int) -> None:
    for _ in range(times):
        build(path, rows(word, 200))


def test_readers_see_one_whole_index_while_two_processes_write(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    build(path, rows("alpha", 200))
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_build, args=(path, word, 8)) for word in ("alpha", "beta")]
    for writer in writers:
        writer.start()
    seen = 0
    while any(writer.is_alive() for writer in writers) or not seen:
        index = IndexFile.open(path)
        word = index.meta["word"]
        assert len(rank.search(index, f"{word} number", limit=200, answers_only=False)) == len(
            rank.score(index, f"{word} number").units
        )
        assert index.unit(199).text.startswith(word)
        index.close()
        seen += 1
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["i.db"]
