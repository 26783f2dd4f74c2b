"""Where a server works when there is nothing left of the folder it was started in."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosts import mcp_place, one_call
from hosts.mcp_tools import named
from memory.errors import UsageError
from tests.mcp.conftest import ELSEWHERE, Home


def test_in_a_folder_that_was_deleted_it_sees_what_holds_everywhere_and_keeps_nothing_for_a_project(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_HOME", home.environment["SLOWWAVE_HOME"])
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    folder = mcp_place.own_folder()
    assert folder is None
    found = one_call.call("memory_recall", {"query": f"{ELSEWHERE} force-push gateway port"}, folder)
    assert (found.failed, ELSEWHERE in found.text, "8080" in found.text) == (False, False, False)
    entry = {"scope": "project", "tier": "log", "topic": "t", "title": "t", "content": "Something."}
    assert one_call.call("memory_remember", entry, folder).failed
    assert not one_call.call("memory_remember", entry | {"scope": "user"}, folder).failed


@pytest.mark.req("C040")
@pytest.mark.parametrize("said", [[], "x", 5, True, [1, {}]], ids=str)
def test_arguments_that_are_no_object_are_said_so_in_words_of_ours(said: object) -> None:
    with pytest.raises(UsageError, match=r"^memory_recall: the arguments are one JSON object\.$"):
        named("memory_recall").read(said)
