"""Every command does what its help says, on real session files, for people and for programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import app
from memory.documents import claims
from tests.plugins.command_line import SAMPLES, Slowwave

COMMANDS = sorted(command.name or command.callback.__name__ for command in app.registered_commands if command.callback)


@pytest.mark.req("P047")
@pytest.mark.fault("X21")
def test_a_run_publishes_a_summary_and_a_second_one_has_nothing_to_do(slowwave: Slowwave) -> None:
    first = slowwave("run")
    assert first.code == 0, first.err
    assert "version 1 published" in first.out
    assert "extract: 11 sessions" in first.err
    second = slowwave("run")
    assert second.code == 0
    assert "no eligible session" in second.out
    assert "no model call" in second.out
    assert re.search(r"cost +0 model calls", second.out)


def test_a_run_as_json_prints_one_document_and_no_progress(slowwave: Slowwave) -> None:
    done = slowwave("run", "--json")
    assert done.json["outcome"] == "ok"
    assert done.json["consolidate"]["version"] == 1
    assert done.json["spend"]["requests"] >= 12
    assert done.err == ""


@pytest.mark.req("P043")
def test_the_stages_can_be_run_one_by_one(slowwave: Slowwave) -> None:
    one = slowwave("run", "--extract-only", "--json")
    assert (one.code, one.json["consolidate"]) == (0, None)
    assert slowwave("show").out.startswith("Nothing has been published yet")
    two = slowwave("run", "--consolidate-only", "--json")
    assert (two.code, two.json["extract"]) == (0, None)
    assert slowwave("show").out.startswith("v1\n")
    both = slowwave("run", "--extract-only", "--consolidate-only")
    assert both.code == 2
    assert "exclude each other" in both.err


@pytest.mark.fault("X41")
def test_a_dry_run_lists_what_would_be_read_and_bounds_the_cost(slowwave: Slowwave) -> None:
    plan = slowwave("run", "--dry-run", "--json").json
    assert len(plan["rollouts"]) == 11
    assert all(Path(item["path"]).is_file() for item in plan["rollouts"])
    assert plan["upper_bound"]["money"] == 0
    shown = slowwave("run", "--dry-run", "--host", "pi", "--limit", "2").out
    assert shown.count("pi:") == 2
    assert "upper bound" in shown
    assert slowwave("status", "--json").json["coverage"]["extracted"] == 0


def test_a_run_can_be_narrowed_to_a_host_and_to_one_session(slowwave: Slowwave) -> None:
    done = slowwave("run", "--host", "codex", "--limit", "1", "--json").json
    assert [item["rollout"].split(":")[0] for item in done["extract"]["outcomes"]] == ["codex"]
    rollout = slowwave("run", "--dry-run", "--json").json["rollouts"][0]["id"]
    picked = slowwave("run", "--rollout", rollout, "--extract-only", "--json").json
    assert [item["rollout"] for item in picked["extract"]["outcomes"]] == [rollout]


@pytest.mark.fault("X14")
def test_older_sessions_are_taken_on_request(slowwave: Slowwave, home: Path) -> None:
    config = home / "config.toml"
    config.write_text(config.read_text().replace("max_age_days = 36500", "max_age_days = 0.0001"))
    assert slowwave("run", "--dry-run", "--json").json["rollouts"] == []
    assert len(slowwave("run", "--dry-run", "--json", "--since", "2026-01-01").json["rollouts"]) == 11


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "--host", "emacs"], 2, "no such host"),
        (["run", "--since", "yesterday"], 2, "not a length or a date"),
        (["run", "--rollout", "nowhere"], 2, "no session has this id"),
        (["why", "no such words anywhere"], 2, "Nothing answers to"),
        (["evidence", "nowhere"], 2, "No session answers to"),
        (["show", "--version", "7"], 2, "7"),
    ],
)
def test_a_wrong_request_is_one_sentence_and_a_code(
    slowwave: Slowwave, arguments: list[str], code: int, says: str
) -> None:
    done = slowwave(*arguments)
    assert done.code == code
    assert says in done.err
    assert done.err.startswith("slowwave: ")
    assert len(done.err.strip().splitlines()) == 1


def test_an_unknown_setting_names_the_nearest(slowwave: Slowwave, home: Path) -> None:
    (home / "config.toml").write_text("[extract]\nidle_hour = 3\n")
    done = slowwave("status")
    assert done.code == 2
    assert "idle_hours" in done.err


@pytest.mark.fault("X23")
def test_status_tells_never_ran_from_ok(slowwave: Slowwave) -> None:
    before = slowwave("status", "--json").json
    assert before["memory"]["state"] == "never_ran"
    assert "never; start one with" in slowwave("status").out
    slowwave("run")
    after = slowwave("status", "--json").json
    assert after["memory"]["state"] == "ok"
    assert after["coverage"]["seen"] == 11
    assert after["coverage"]["extracted"] + after["coverage"]["nothing_worth_keeping"] == 11
    assert after["spend"]["total"]["requests"] >= 12
    text = slowwave("status").out
    assert "11 seen" in text
    assert "offline" in text


@pytest.mark.fault("M93")
def test_why_leads_from_a_line_to_the_moment_it_was_said(after_run: Slowwave) -> None:
    summary = after_run("show", "--json").json["text"]
    line = next(claim for claim in claims(summary) if "Vitest" in claim.text)
    by_number = after_run("why", str(line.line), "--json").json
    assert by_number[0]["text"] == line.text
    events = [event for source in by_number[0]["sources"] for event in source["events"]]
    assert any(event["tier"] == "human" and "Vitest" in event["text"] for event in events)
    assert after_run("why", "vitest", "--json").json[0]["text"] == line.text
    shown = after_run("why", str(line.line)).out
    assert "the user:" in shown
    assert line.citations[0] in shown


def test_why_tells_about_a_session_by_citation_by_id_and_by_path(after_run: Slowwave) -> None:
    source = next(row for row in after_run("sources", "--json").json if row["left_out"] is None)
    for reference in (
        source["citation"],
        f"[{source['citation']}]",
        source["source"],
        source["source"].split(":")[1][:20],
    ):
        found = after_run("why", reference, "--json").json
        assert source["source"] in {trace["rollout"] for trace in found}
    path = next(iter(after_run("why", source["source"], "--json").json))["path"]
    assert after_run("why", path, "--json").json[0]["rollout"] == source["source"]
    assert "up_to_date" in after_run("why", source["source"]).out


def test_every_line_of_the_summary_has_an_answer_to_why(after_run: Slowwave) -> None:
    summary = after_run("show", "--json").json["text"]
    for claim in claims(summary):
        trace = after_run("why", str(claim.line), "--json").json[0]
        assert trace["sources"], claim.text
        for source in trace["sources"]:
            assert source["problem"] is None, (claim.text, source)
            assert source["bullets"] or claim.section.endswith("Memory"), claim.text


def test_show_prints_the_summary_as_it_is(after_run: Slowwave, home: Path) -> None:
    plain = after_run("show").out
    path = Path(after_run("show", "--json").json["path"])
    assert plain == path.read_text(encoding="utf-8")
    assert after_run("show", "--version", "1").out == plain
    assert after_run("show", "--numbers").out.startswith("   1  v1\n")


def test_evidence_prints_what_the_model_would_see(slowwave: Slowwave) -> None:
    rollout = slowwave("run", "--dry-run", "--json").json["rollouts"][0]["id"]
    found = slowwave("evidence", rollout, "--json").json
    assert found["tokens"] <= found["budget_tokens"]
    assert re.search(r"^\[e\d+ human ", found["user"], re.MULTILINE)
    assert found["user"].rstrip("\n") in slowwave("evidence", rollout).out


@pytest.mark.fault("M56", "X35", "O52")
def test_no_secret_of_a_session_reaches_evidence_files_or_the_database(after_run: Slowwave, home: Path) -> None:
    secret = "sk-EXAMPLE0not0a0real0key0EXAMPLE0000"
    assert any(secret in path.read_text() for path in SAMPLES.rglob("*.jsonl")), "the samples lost their secret"
    for item in after_run("run", "--dry-run", "--json", "--since", "2026-01-01").json["rollouts"]:
        assert secret not in after_run("evidence", item["id"], "--json").out
    found = [path for path in home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert found == []


@pytest.mark.fault("M61", "X38")
def test_an_instruction_in_a_tool_output_does_not_become_memory(after_run: Slowwave) -> None:
    assert any("from now on always" in path.read_text() for path in SAMPLES.rglob("*.jsonl"))
    assert "SYSTEM" not in after_run("show").out


def test_doctor_is_clean_after_a_run_and_names_what_is_wrong(after_run: Slowwave, home: Path) -> None:
    assert {finding["level"] for finding in after_run("doctor", "--json").json} == {"ok"}
    Path(after_run("show", "--json").json["path"]).unlink()
    broken = after_run("doctor")
    assert broken.code == 1
    assert "slowwave run writes it again" in broken.out
    assert after_run("run").code == 0
    assert after_run("doctor").code == 0


@pytest.mark.fault("O32", "O13")
def test_nothing_is_written_into_the_hosts_folders(slowwave: Slowwave) -> None:
    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in SAMPLES.rglob("*")}

    before = state()
    slowwave("run")
    assert state() == before


def test_try_works_in_a_throw_away_home(slowwave: Slowwave, home: Path) -> None:
    done = slowwave("try", "--samples", str(SAMPLES))
    assert done.code == 0, done.err
    assert "── the published summary ──" in done.out
    assert "── slowwave why" in done.out
    assert not (home / "state.db").exists()
    as_json = slowwave("try", "--samples", str(SAMPLES), "--json").json
    assert as_json["summary"].startswith("v1\n")
    assert as_json["why"]["sources"]


def test_try_without_sessions_or_samples_says_what_to_do(slowwave: Slowwave) -> None:
    done = slowwave("try")
    assert (done.code, "--samples" in done.err) == (2, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(slowwave: Slowwave, command: str) -> None:
    done = slowwave(command, "--help")
    assert done.code == 0
    assert done.out.startswith("Usage: ")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"openai", "prefect", "sqlalchemy", "pydantic", "rich", "tiktoken", "instructor", "asyncio"}
    loaded = set(json.loads(shown.splitlines()[-1].replace("'", '"')))
    assert loaded.isdisjoint(heavy)


def test_the_installed_script_runs_without_a_terminal(home: Path) -> None:
    script = shutil.which("slowwave", path=str(Path(sys.executable).parent))
    assert script is not None
    done = subprocess.run([script, "version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", done.stdout)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("show",), 0),
        (("sources",), 0),
        (("history", "--json"), 0),
        (("search", "tests", "--all"), 0),
        (("--help",), 0),
        (("why", "nothing-of-this-name"), 2),
        (("nosuch",), 2),
    ],
)
def test_a_reader_that_stops_reading_changes_neither_a_command_nor_its_exit_code(
    after_run: Slowwave, command: tuple[str, ...], code: int
) -> None:
    assert _unread(*command) == (code, b"")


def test_a_run_goes_on_to_its_end_when_nobody_reads_any_more_what_it_says(slowwave: Slowwave, home: Path) -> None:
    both = _unread("run", errors_too=True)
    assert both == (0, b"")
    assert slowwave("show").out.startswith("v1\n")
    assert slowwave("status", "--json").json["last_run"]["outcome"] == "ok"


@pytest.mark.parametrize(
    "command", [("run",), ("forget", "--text", "whole cents everywhere", "--yes"), ("clear", "--yes")]
)
def test_whatever_a_command_began_is_whole_when_its_reader_left(after_run: Slowwave, command: tuple[str, ...]) -> None:
    assert _unread(*command, errors_too=True)[0] == 0
    assert after_run("doctor").code == 0


def test_following_the_log_ends_with_its_reader(home: Path) -> None:
    log = home / "service" / "logs" / "service.log"
    log.parent.mkdir(parents=True)
    log.write_text("2026-11-30T08:00:00 service: ready\n", "utf-8")
    assert _unread("logs", "--follow") == (0, b"")


def _unread(*command: str, errors_too: bool = False) -> tuple[int, bytes]:
    """Exit code and standard error of a real command behind a pipe that nobody reads."""
    program = Path(sys.executable).with_name("slowwave")
    reading, writing = os.pipe()
    os.close(reading)
    errors = writing if errors_too else subprocess.PIPE
    done = subprocess.run([program, *command], stdout=writing, stderr=errors, check=False, timeout=60)
    os.close(writing)
    said = done.stderr or b""
    return done.returncode, b"" if done.returncode == 2 and b"Traceback" not in said else said


def test_a_full_disk_behind_the_output_is_said_in_a_sentence(after_run: Slowwave) -> None:
    program = Path(sys.executable).with_name("slowwave")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([program, "search", "tests", "--all"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"slowwave: Standard output cannot be written")
