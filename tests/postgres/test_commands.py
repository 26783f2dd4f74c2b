"""The main job over the sample sessions, command by command, with the state on a server. What changes memory runs in a
process of its own."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest

from cli.main import main
from tests.plugins.postgres import PASSWORD, QUOTED, Server
from tests.postgres.home import Home

pytestmark = pytest.mark.deep

FORGOTTEN = "codex:01a22b7f-2594-78e0-98bf-21fc5819b16f"
NAME = "test-coupon-lowers-cart-total"
"""What the model called a session; the state holds it."""
BEYOND = "Beyond this proof: write-ahead log, standbys and backups of the PostgreSQL server, which are its own."


class Story:
    """Commands that must succeed."""

    def __init__(self, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.capsys = home, capsys

    def do(self, *arguments: str) -> str:
        """What one prints that changes something."""
        done = self.home.type(*arguments)
        assert done.code == 0, (arguments, done)
        return done.out

    def see(self, *arguments: str) -> str:
        """What one prints that only looks, in this process."""
        self.capsys.readouterr()
        with contextlib.suppress(SystemExit):
            main(list(arguments))
        said = self.capsys.readouterr()
        assert "slowwave:" not in said.err, (arguments, said)
        return said.out

    def in_order(self) -> None:
        """Doctor finds nothing, not even left-overs."""
        lines = self.do("doctor").splitlines()
        assert [line for line in lines if not line.startswith("ok ")] == []
        assert "ok       state: in order" in lines


@pytest.mark.req("Z106", "Z110", "Z111", "Z116")
@pytest.mark.fault("M48")
def test_everything_a_user_does_with_memory_works_with_the_state_on_a_server(
    postgres_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path)
    home.configure(postgres_server.guarded("story"))
    monkeypatch.setenv("SLOWWAVE_HOME", str(home.data))
    user = Story(home, capsys)
    place = f"postgresql://guarded@127.0.0.1:{postgres_server.port}/story (schema slowwave_default)"

    assert "summary    version 1 published" in user.do("run")
    again = user.do("run")
    assert "extract    no eligible session" in again
    assert "unchanged: the same 10 sources as last time, no model call" in again
    assert sorted(path.name for path in home.data.iterdir() if "state" in path.name) == []

    status = user.see("status")
    assert f"state      on {place}\n" in status
    assert "sessions   11 seen, 10 extracted" in status
    first = user.see("show")
    with monkeypatch.context() as elsewhere:  # the same sessions come to the same text, whatever the state lies on
        other = Home(tmp_path / "other")
        other.configure("")
        elsewhere.setenv("SLOWWAVE_HOME", str(other.data))
        user.see("run", "--json")
        assert user.see("show") == first

    source = json.loads(user.see("sources", "--json"))[0]["source"]
    assert source in user.see("why", source)
    found = user.see("search", "vitest for new tests", "--project", "shop")
    assert "Vitest" in found
    assert user.see("history").startswith("version 1 ")

    assert "forgotten: 1 session" in (gone := user.do("forget", FORGOTTEN, "--yes"))
    assert gone.endswith(f"{BEYOND}\n")
    text = user.do("forget", "--text", "vendor-changelog", "--yes")
    assert "no file of the data folder holds it any more\n" in text
    assert user.see("diff", "1", "3").startswith("added")
    assert "vendor-changelog" not in user.see("history")
    assert re.search(r"restored version 1 as version \d", user.do("restore", "1", "--yes"))
    assert "vendor-changelog" not in user.see("show")
    user.in_order()

    assert postgres_server.holding(NAME)
    cleared = user.do("clear", "--yes")
    left = "left of it: 0 files, 0 rows, 0 versions, 0 index files, 0 files set aside, 0 old folders"
    assert left in cleared
    assert cleared.endswith(f"{BEYOND}\n")
    assert "still stand" not in cleared
    assert postgres_server.holding(NAME) == []
    assert postgres_server.sql("SELECT count(*) FROM slowwave_default.outputs", "story") == [(0,)]
    assert "no eligible session" in user.do("run"), "what was cleared never comes back"
    user.in_order()
    assert home.holding(PASSWORD, QUOTED, "hunter2") == []
