"""docs/postgresql.md, done as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.plugins.command_line import CONFIG, SAMPLES
from tests.plugins.postgres import Server
from tests.postgres.home import ROOT, Home

PAGE = (ROOT / "docs" / "postgresql.md").read_text("utf-8")
AT, PASSWORD = "db.example:5432", "choose one"


def shown(beginning: str) -> list[str]:
    """The page's indented lines that begin with a word."""
    return re.findall(rf"^ {{4}}({beginning}.*)$", PAGE, re.MULTILINE)


@pytest.mark.deep
def test_what_the_page_shows_sets_up_a_state_that_works(postgres_server: Server, tmp_path: Path) -> None:
    here = f"127.0.0.1:{postgres_server.port}"
    for statement in shown("CREATE"):
        postgres_server.sql(statement)
    settings = "\n".join([*shown(r"\[state\]"), *shown("url = ")])
    assert AT in settings
    home = Home(tmp_path)
    config = home.data / "config.toml"
    config.write_text(f"{CONFIG.format(samples=SAMPLES)}{settings.replace(AT, here)}\n", "utf-8")
    config.chmod(0o600)
    (passwords,) = re.findall(rf"`({re.escape(AT)}:.*{PASSWORD})`", PAGE)
    (tmp_path / ".pgpass").write_text(f"{passwords.replace(AT, here)}\n", "utf-8")
    (tmp_path / ".pgpass").chmod(0o600)
    commands = [shlex.split(line)[1:] for line in shown("slowwave")]
    assert commands == [["doctor"], ["run"], ["status"]]
    results = [home.type(*command) for command in commands]
    assert [done.code for done in results] == [0, 0, 0], results
    (line,) = re.findall(r"`(state {6}on [^`]*)`", PAGE)
    assert line.replace(AT, here) in results[-1].out.splitlines()


def test_every_file_the_page_names_exists() -> None:
    assert all((ROOT / name).is_file() for name in re.findall(r"\b(docs/\w+\.md)\b", PAGE))
