"""Which project a server works for: where its folder is gone, and for clients that are asked by an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult, InputRequiredResult, ListRootsResult, Root

from hosts import mcp_place, mcp_resources, one_call
from hosts.mcp_life import Worker
from hosts.mcp_server import MemoryServer
from hosts.mcp_tools import named
from memory.errors import UsageError
from tests.mcp.conftest import ELSEWHERE, Home, ask, inside, talk, text_of


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


# -- clients that are asked by an answer ------------------------------------------------------------------------------

MODERN = "2026-07-28"


class Rooted:
    """A client's answer to the question for its roots, and how often it was asked."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.asked = 0

    async def __call__(self, context: Any) -> ListRootsResult:
        self.asked += 1
        uris = [self.folder.as_uri()] if self.folder else []
        return ListRootsResult(roots=[Root.model_validate({"uri": uri}) for uri in uris])


def test_a_client_of_a_process_of_its_own_is_asked_once(home: Home) -> None:
    rooted = Rooted(home.shop)

    async def steps(client: Client) -> None:
        for _ in range(3):
            assert "8080" in await ask(client, "memory_recall", query="gateway port")

    inside(None, steps, mode=MODERN, list_roots_callback=rooted)
    assert rooted.asked == 1


def test_resources_are_those_of_the_clients_root_too(home: Home) -> None:
    async def steps(client: Client) -> str:
        return str(await client.read_resource(mcp_resources.SUMMARY))

    said = inside(None, steps, mode=MODERN, list_roots_callback=Rooted(home.api))
    assert ELSEWHERE in said
    assert "force-push" not in said


def test_who_names_no_roots_or_works_for_one_project_is_not_asked(home: Home) -> None:
    rooted = Rooted(home.api)

    async def steps(client: Client) -> str:
        return await ask(client, "memory_recall", query="gateway port canary", near=True)

    fixed = inside(home.shop, steps, mode=MODERN, list_roots_callback=rooted)
    assert "8080" in fixed
    assert ELSEWHERE not in fixed
    assert rooted.asked == 0
    assert ELSEWHERE not in inside(None, steps, mode=MODERN)


def test_a_call_that_comes_again_without_roots_is_answered_and_not_asked_for_ever(home: Home) -> None:
    async def steps(client: Client) -> str:
        first = await client.session.call_tool("memory_recall", {"query": "gateway port"}, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        again = await client.session.call_tool(
            "memory_recall", {"query": "gateway port"}, request_state=first.request_state, allow_input_required=True
        )
        assert isinstance(again, CallToolResult)
        return text_of(again)

    assert "8080" not in inside(None, steps, mode=MODERN, list_roots_callback=Rooted(home.shop))


def test_wrong_arguments_are_told_before_anything_is_asked(home: Home) -> None:
    rooted = Rooted(home.shop)

    async def steps(client: Client) -> None:
        assert (await client.call_tool("memory_recall", {"project": "api"})).is_error
        assert (await client.call_tool("memory_nothing", {})).is_error

    talk(MemoryServer(Worker(), None, None).sdk(), steps, mode=MODERN, list_roots_callback=rooted)
    assert rooted.asked == 0
