"""Changing memory by hand: shown first, confirmed, proven, and undone only where that is promised."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest

from memory.documents import claims
from tests.plugins.command_line import SAMPLES, Slowwave


def text_of(after_run: Slowwave) -> str:
    return str(after_run("show", "--json").json["text"])


@pytest.mark.parametrize("command", [["clear"], ["forget", "--text", "pnpm"], ["restore", "1"]])
def test_without_a_terminal_nothing_is_changed_unless_yes_is_given(after_run: Slowwave, command: list[str]) -> None:
    before = text_of(after_run)
    done = after_run(*command)
    assert done.code == 2
    assert "--yes" in done.err
    assert text_of(after_run) == before


@pytest.mark.req("Z110", "Z113", "Z115")
@pytest.mark.fault("M55")
def test_clear_shows_what_goes_and_proves_it_and_nothing_old_comes_back(after_run: Slowwave) -> None:
    done = after_run("clear", "--yes")
    assert done.code == 0
    assert "10 rollout summaries" in done.out
    assert "0 files, 0 rows, 0 versions, 0 index files, 0 files set aside, 0 old folders;" in done.out
    again = after_run("run", "--json").json
    assert again["extract"]["outcomes"] == []
    assert after_run("status", "--json").json["coverage"]["skipped"] == {"before_watermark": 11}
    assert after_run("show").out.startswith("Nothing has been published yet")
    assert after_run("doctor").code == 0


@pytest.mark.fault("M54")
@pytest.mark.parametrize(
    "what", [["nobody"], ["--text", "no such words"], ["--project", "none"], [], ["a", "--text", "b"]]
)
def test_forgetting_nothing_is_a_failure(after_run: Slowwave, what: list[str]) -> None:
    before = text_of(after_run)
    done = after_run("forget", *what, "--yes")
    assert done.code == 2
    assert text_of(after_run) == before


@pytest.mark.fault("M54")
@pytest.mark.parametrize("way", ["session", "citation", "text", "note", "project"])
def test_what_was_forgotten_already_is_said_with_its_date_and_is_no_failure(after_run: Slowwave, way: str) -> None:
    source = next(row for row in after_run("sources", "--json").json if row["source"].startswith("codex:"))
    after_run("remember", "--note", "--id", "walrus", "The walrus sings.")
    what = {
        "session": [source["source"]],
        "citation": [source["citation"]],
        "text": ["--text", "never force-push"],
        "note": ["note:walrus"],
        "project": ["--project", source["project"]],
    }[way]
    assert "forgotten: " in after_run("forget", *what, "--yes").out
    before = text_of(after_run)
    again = after_run("forget", *what)  # nothing goes, so nothing is asked
    assert again.code == 0
    assert re.search(r"(?:was|were) forgotten already(?:, the last)? on \d{4}-\d\d-\d\dT\d\d:\d\dZ", again.out)
    assert "forgotten: " not in again.out
    said = after_run("forget", *what, "--json").json
    assert (said["rollouts"], said["notes"], said["version"], said["left"]) == ([], [], None, [])
    assert said["already"]
    assert all(one["at"].endswith("Z") for one in said["already"])
    assert text_of(after_run) == before


def test_of_a_project_only_what_is_still_there_is_forgotten_and_counted(after_run: Slowwave) -> None:
    rows = [row for row in after_run("sources", "--json").json if row["project"] == "shop"]
    after_run("forget", rows[0]["source"], "--yes")
    done = after_run("forget", "--project", "shop", "--yes", "--json").json
    assert rows[0]["source"] in [one["what"] for one in done["already"]]
    assert rows[0]["source"] not in done["rollouts"]
    assert rows[1]["source"] in done["rollouts"]


def test_a_forgotten_session_whose_file_went_too_is_still_known_as_forgotten(
    after_run: Slowwave, home: Path, tmp_path: Path
) -> None:
    source = after_run("sources", "--json").json[0]["source"]
    after_run("forget", source, "--yes")
    with sqlite3.connect(home / "state.db") as database:
        database.execute("DELETE FROM rollouts WHERE id = ?", (source,))
    database.close()
    config = home / "config.toml"
    config.write_text(config.read_text("utf-8").replace(str(SAMPLES), str(tmp_path)), "utf-8")
    assert "forgotten already" in after_run("forget", source).out
    assert after_run("forget", "codex:0199aaaa-0000-7000-8000-000000000001").code == 2


def test_a_note_of_a_forgotten_name_can_be_made_and_forgotten_again(after_run: Slowwave) -> None:
    for _ in range(2):
        assert after_run("remember", "--note", "--id", "walrus", "The walrus sings.").code == 0
        assert after_run("forget", "walrus", "--yes", "--json").json["notes"] == ["walrus"]
    assert "note walrus was forgotten already" in after_run("forget", "walrus").out


@pytest.mark.fault("M48", "X40")
def test_a_forgotten_session_is_gone_from_the_whole_data_folder(after_run: Slowwave, home: Path) -> None:
    trace = after_run("why", "统一用 pnpm", "--json").json[0]
    source = trace["sources"][0]
    words = "package-lock.json，跟"
    assert words in text_of(after_run)
    done = after_run("forget", source["source"], "--yes", "--json")
    assert done.code == 0
    assert done.json["rollouts"] == [source["source"]]
    left = [path for path in home.rglob("*") if path.is_file() and words.encode() in path.read_bytes()]
    assert left == []
    assert "Vitest" in text_of(after_run)
    again = after_run("run", "--json").json
    assert again["extract"]["outcomes"] == []
    assert words not in text_of(after_run)
    assert after_run("doctor").code == 0


@pytest.mark.fault("M54")
def test_what_still_holds_a_forgotten_text_is_named(after_run: Slowwave, home: Path) -> None:
    short = home / "short" / "user.md"
    short.parent.mkdir(mode=0o700, exist_ok=True)
    short.write_text("# Short\n- Amounts are WHOLE cents everywhere\n", encoding="utf-8")
    done = after_run("forget", "--text", "whole cents everywhere", "--yes")
    assert done.code == 0
    assert "still holds it: short/user.md (your own file: edit it)" in done.out
    stray = home / "sessions" / "stray.txt"
    stray.parent.mkdir(mode=0o700, exist_ok=True)
    stray.write_text("never force-push", encoding="utf-8")
    done = after_run("forget", "--text", "never force-push", "--yes", "--json")
    assert (done.code, done.json["left"]) == (1, ["sessions/stray.txt"])


def test_a_forgotten_text_takes_only_its_lines(after_run: Slowwave) -> None:
    before = claims(text_of(after_run))
    done = after_run("forget", "--text", "never force-push", "--yes")
    assert done.code == 0
    assert "no file of the data folder holds it any more" in done.out
    assert "never force-push" in done.out
    after = [claim.text for claim in claims(text_of(after_run))]
    assert after == [claim.text for claim in before if "never force-push" not in claim.text]


@pytest.mark.fault("M54", "X40")
def test_a_session_nobody_has_looked_at_yet_can_be_forgotten(slowwave: Slowwave) -> None:
    session = "codex:01a22b7f-669f-7472-a9a7-9dd603c6c62c"
    assert slowwave("forget", session, "--yes", "--json").json["rollouts"] == [session]
    extracted = slowwave("run", "--json").json["extract"]["outcomes"]
    assert extracted
    assert session not in {one["rollout"] for one in extracted}


@pytest.mark.fault("M48")
def test_a_projects_own_notes_go_with_it_and_notes_for_all_projects_stay(after_run: Slowwave, home: Path) -> None:
    notes = next((home / "generations").iterdir()) / "memories_v2" / "extensions" / "ad_hoc" / "notes"
    for name in ("own", "all"):
        after_run("remember", "--note", "--id", name, f"The walrus of {name} sings")
    text = (notes / "own.md").read_text("utf-8")
    (notes / "own.md").write_text(text.replace("scope: global", "project: shop"), "utf-8")
    done = after_run("forget", "--project", "shop", "--yes", "--json")
    assert done.json["notes"] == ["own"]
    assert [path.stem for path in notes.glob("*.md")] == ["all"]


def test_a_project_is_forgotten_whole_and_the_other_stays(after_run: Slowwave) -> None:
    after_run("forget", "--project", "api", "--yes")
    text = text_of(after_run)
    assert "`api`" not in text
    assert "`shop`" in text


@pytest.mark.req("Z117")
def test_history_diff_and_restore_go_together(after_run: Slowwave) -> None:
    first = text_of(after_run)
    after_run("forget", "--text", "whole cents everywhere", "--yes")
    assert text_of(after_run) != first
    rows = after_run("history", "--json").json
    assert [row["version"] for row in rows] == [2, 1]
    assert rows[1]["changes"][0]["kind"] == "added"
    assert "version 2" in after_run("history").out
    restored = after_run("restore", "1", "--yes", "--json").json
    assert restored["version"] == 3
    assert "whole cents everywhere" not in text_of(after_run)
    shown = after_run("diff", "2", "3", "--json").json
    assert json.dumps(shown["sources_added"]) == "[]"
    assert after_run("diff", "1", "9").code == 2
    assert after_run("restore", "9", "--yes").code == 2


def test_a_restored_version_stays_until_something_new_is_learnt(after_run: Slowwave) -> None:
    after_run("restore", "1", "--yes")
    before = text_of(after_run)
    assert after_run("run", "--json").json["consolidate"]["code"] == "unchanged"
    assert text_of(after_run) == before
