"""`slowwave search`: what a person sees, and a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli import search
from cli.main import main
from memory.testing import StoreBench

PROJECT = "aaaaaaaaaaaa"


@pytest.fixture
def home(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A note for everybody, and a session of one project."""
    bench.workspace.write_note("office", "The office closes at six; the 门 code changes on Monday.")
    bench.add("a1", "# Gate\n## Reference\n- The gateway listens on port 8080 [e1]\n", project=PROJECT)
    monkeypatch.setenv("SLOWWAVE_HOME", str(bench.settings.home))
    return bench.settings.home


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code: object = 0
    try:
        main(["search", *arguments])
    except SystemExit as ended:
        code = ended.code or 0
    said = capsys.readouterr()
    return code if isinstance(code, int) else 1, said.out, said.err


def test_a_line_is_printed_with_its_citation_and_date(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "gateway port", "--all")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == " 1. The gateway listens on port 8080"
    for fact in ("codex:a1", "Reference", "2026-11-29", PROJECT):
        assert fact in out.splitlines()[1]


@pytest.mark.req("P017")
def test_this_folders_project_is_searched_unless_another_is_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Nothing in memory answers this" in run(capsys, "gateway port")[1]
    assert "The office closes at six" in run(capsys, "when does the office close")[1]
    assert "port 8080" in run(capsys, "gateway port", "--project", PROJECT)[1]


def test_that_another_project_has_something_is_told_and_never_what(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run(capsys, "gateway port")[1]
    assert "Another project has something: --all. What comes near: --near" in told
    assert "8080" not in told
    assert PROJECT not in told
    as_json = json.loads(run(capsys, "gateway port", "--json")[1])
    assert (as_json["hits"], as_json["elsewhere"]) == ([], True)
    for more in ((), ("--near",)):
        assert "--all" not in run(capsys, "kubernetes", *more)[1]
    assert json.loads(run(capsys, "when does the office close", "--json")[1])["elsewhere"] is False


def test_a_name_that_two_checkouts_share_means_both(
    bench: StoreBench, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.add("b2", "# Gate\n## Reference\n- The gateway port opens late [e1]\n", project="shop")
    bench.add("c3", "# Gate\n## Reference\n- The gateway port of the api [e1]\n", project="api")
    out = run(capsys, "gateway port", "--project", "Shop", "--near")[1]
    assert "opens late" in out
    assert "of the api" not in out


def test_nothing_found_is_said_and_is_no_failure(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "kubernetes", "--all")
    assert code == 0
    assert out.startswith("Nothing in memory answers this (all projects).")
    assert json.loads(run(capsys, "kubernetes", "--all", "--json")[1])["hits"] == []


def test_json_marks_the_words_that_were_asked_for(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (hit,) = json.loads(run(capsys, "门", "--json", "--near")[1])["hits"]
    assert [hit["text"][start:end] for start, end in hit["marks"]] == ["门"]
    assert hit["citations"] == ["note:office"]
    assert hit["everywhere"] is True


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("port", "--project", "nobody"), "No project"),
        (("port", "--project", "x", "--all"), "exclude each other"),
        (("port", "--limit", "0"), "limit"),
        (("port", "--nope"), "nope"),
        ((), "WORDS"),
    ],
)
def test_what_cannot_be_is_said(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert says.lower() in err.lower()


@pytest.mark.parametrize(
    "arguments",
    [["a b"], ["a", "--all"], ["--json", "a", "--limit", "3"], ["--project", "p", "a"], ["a", "--near", "--evidence"]],
)
def test_the_short_way_reads_what_the_long_way_reads(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    seen: list[dict[str, object]] = []
    monkeypatch.setattr(search, "search", lambda **options: seen.append(options))
    main(["search", *arguments])
    monkeypatch.setattr(search, "read", lambda _: None)
    with pytest.raises(SystemExit):
        main(["search", *arguments])
    assert seen[0] == seen[1]


def test_control_characters_of_a_stored_text_never_reach_the_terminal() -> None:
    from cli.text import marked

    assert marked("a\x1b[31mb", [(0, 1)], "<", ">") == "<a>\\x1b[31mb"


def test_a_search_loads_neither_settings_nor_state_nor_tables(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "office", "--all")
    code = (
        "import sys; from cli.main import main; main(['search', 'office', '--all']); "
        "slow = {'pydantic', 'sqlalchemy', 'rich', 'memory.settings', 'memory.state'}; "
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)"
    )
    root = Path(__file__).resolve().parents[2]
    env = {"SLOWWAVE_HOME": str(home), "PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert "office" in done.stdout
    assert done.stderr.strip() == "[]"
