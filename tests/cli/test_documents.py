"""Every command line the documents show is one that runs as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.plugins.command_line import Slowwave

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINE = re.compile(r"^ {4}(slowwave [a-z].*)$", re.MULTILINE)
COMMENT = re.compile(r"\s+#.*|\s{2,}.*")


def lines(document: Path) -> list[str]:
    """What stands indented by four and begins with our name, without the words behind it."""
    return [COMMENT.sub("", line) for line in LINE.findall(document.read_text("utf-8"))]


def variants(line: str) -> list[list[str]]:
    """Without what stands in brackets, and with it."""
    words = [re.sub(r"\s*\[[^]]*\]", "", line), re.sub(r"\[([^]]*)\]", r"\1", line)]
    return [shlex.split(text)[1:] for text in dict.fromkeys(words)]


WITH_COMMANDS = [document for document in DOCUMENTS if lines(document)]


@pytest.fixture
def place(tmp_path: Path, isolated_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout to stand in, and hosts on PATH."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("codex", "claude", "pi"):
        (programs / name).write_text("#!/bin/sh\n", "utf-8")
        (programs / name).chmod(0o755)
        (isolated_home / f".{name}").mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    root = tmp_path / "shop"
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda document: document.name)
def test_what_a_document_shows_works_as_it_stands_there(after_run: Slowwave, place: Path, document: Path) -> None:
    source = next(row["source"] for row in after_run("sources", "--json").json if row["source"])
    assert place.is_dir()
    for line in lines(document):
        for arguments in variants(line):
            words = [source if word == "ID" else word for word in arguments]
            done = after_run(*words)
            assert done.code == 0, (line, done.err)


def test_the_readme_shows_how_to_put_memory_into_the_hosts() -> None:
    shown = {line.split()[1] for line in lines(ROOT / "README.md")}
    assert {"run", "show", "why", "status", "sources", "doctor", "hosts", "remember", "short"} <= shown
