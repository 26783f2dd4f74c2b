"""What doctor set aside is searched before it outlives a forget, and what cannot be searched does not outlive it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memory import forgotten
from memory.errors import PathRefused
from memory.workspace import quarantine

FOLDER = "quarantine/20261130T120000"
RECORDS = f"{FOLDER}/generations/g1/memories_v2/rollout_summaries"
VERSION = f"{FOLDER}/generations/g1/versions/3"
MINE, OTHER = "00112233aabbccdd", "ffeeddccbbaa9988"
SESSION = quarantine.Wanted(frozenset({"codex:a1", "3f9a1c2e", MINE}))


def put(home: Path, path: str, data: str | bytes) -> str:
    place = home / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def manifest(*citations: str) -> str:
    return json.dumps({"inputs": [{"citation": citation} for citation in citations]})


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (f"{RECORDS}/{MINE}.md", "nothing else gives it away"),
        (f"{RECORDS}/{OTHER}.md", "source: codex:a1"),
        (f"{RECORDS}/copy.md", "whose words these are, nobody can say"),
        (f"{FOLDER}/state.db", b""),
        (f"{FOLDER}/state.db-wal", bytes(100)),
        (f"{FOLDER}/bytes", b"\xff\xfe"),
        (f"{FOLDER}/zeros", bytes(100)),
        (f"{FOLDER}/large", b" " * (quarantine.MAX_SEARCHED_BYTES + 1)),
    ],
)
@pytest.mark.fault("M48", "X40")
def test_a_file_that_may_hold_a_forgotten_session_goes_and_its_empty_folders_too(
    tmp_path: Path, path: str, data: str | bytes
) -> None:
    put(tmp_path, path, data)
    assert quarantine.remove(tmp_path, SESSION) == (path,)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("M49")
def test_what_is_known_to_be_of_others_stays(tmp_path: Path) -> None:
    put(tmp_path, f"{RECORDS}/{OTHER}.md", "source: codex:b2")
    put(tmp_path, f"{VERSION}/manifest.json", manifest("0a0a0a0a"))
    put(tmp_path, f"{VERSION}/memory_summary.md", "- A line of others [0a0a0a0a]")
    put(tmp_path, f"{FOLDER}/generation.json", "{")
    mine = put(tmp_path, f"{RECORDS}/{MINE}.md", "")
    assert quarantine.remove(tmp_path, SESSION) == (mine,)
    assert quarantine.count(tmp_path) == 4
    assert quarantine.remove(tmp_path, SESSION) == ()


@pytest.mark.parametrize(
    ("of_manifest", "summary"),
    [(manifest("3f9a1c2e"), "x"), (manifest("0a0a0a0a"), "- A line [3f9a1c2e]"), ("{", "- A line cut off in the mid")],
)
def test_a_version_goes_whole(tmp_path: Path, of_manifest: str, summary: str) -> None:
    put(tmp_path, f"{VERSION}/manifest.json", of_manifest)
    put(tmp_path, f"{VERSION}/memory_summary.md", summary)
    put(tmp_path, f"{VERSION}/inputs/rollout_summaries/{OTHER}.md", "the words of another")
    assert quarantine.remove(tmp_path, SESSION) == (VERSION,)
    assert quarantine.count(tmp_path) == 0


def test_a_text_is_found_in_whatever_case_and_spacing_it_stands(tmp_path: Path) -> None:
    holds = forgotten.holder("Zebra  umbrella")
    found = put(tmp_path, f"{RECORDS}/{OTHER}.md", "- the `zebra`\numbrella [e2]")
    other = put(tmp_path, f"{RECORDS}/{MINE}.md", "- the lion [e2]")
    assert quarantine.holding(tmp_path, holds) == (found,)
    assert quarantine.remove(tmp_path, quarantine.Wanted((), holds)) == (found,)
    assert (tmp_path / other).exists()


def test_a_database_in_which_a_text_stands_in_pieces_goes_without_being_a_match(tmp_path: Path) -> None:
    path = put(tmp_path, f"{FOLDER}/state.db", b"")
    with closing(sqlite3.connect(tmp_path / path)) as raw:
        raw.execute("CREATE TABLE t (x)")
        raw.execute("INSERT INTO t VALUES (?)", ("zebra umbrella " * 1_000,))
        raw.commit()
    holds = forgotten.holder("zebra umbrella")
    assert quarantine.holding(tmp_path, holds) == ()
    assert quarantine.remove(tmp_path, quarantine.Wanted((), holds)) == (path,)


@pytest.mark.req("Z111")
def test_all_of_it_goes_with_a_clear(tmp_path: Path) -> None:
    (tmp_path / "generations").mkdir()
    assert not quarantine.remove_all(tmp_path)
    put(tmp_path, f"{FOLDER}/state.db", b"x")
    put(tmp_path, f"{VERSION}/manifest.json", "{")
    assert quarantine.count(tmp_path) == 2
    assert quarantine.remove_all(tmp_path)
    assert list(tmp_path.rglob("*")) == [tmp_path / "generations"]


def test_a_link_in_its_place_is_not_followed_and_goes_with_a_clear(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "generations").mkdir(parents=True)
    put(elsewhere, "state.db", b"x")
    (home / "quarantine").symlink_to(elsewhere)
    with pytest.raises(PathRefused):
        quarantine.remove(home, SESSION)
    assert quarantine.remove_all(home)
    assert (elsewhere / "state.db").exists()
    assert not (home / "quarantine").is_symlink()
