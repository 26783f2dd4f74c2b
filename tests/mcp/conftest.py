"""A store with two projects in it, folders of these projects, and servers of its memory tools to talk to."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from consolidate.run import run
from hosts.mcp_life import Worker
from hosts.mcp_server import MemoryServer
from memory.documents import print_summary
from memory.model import HEADINGS
from memory.project import project_of
from memory.testing import StoreBench, call, store_bench

T = TypeVar("T")
SECONDS = 60
SHOP_BODY = """# Checkout
Outcome: success
## User preferences
- Never force-push to `main` [e1]
## Reference
- The gateway listens on port 8080 [e2]
"""
API_BODY = """# Invoices
Outcome: success
## Reference
- The canary zebra-umbrella ships before invoices [e1]
"""
ELSEWHERE = "zebra-umbrella"
"""What stands in the other project's memory alone."""


@dataclass(frozen=True)
class Home:
    """The data folder, two checkouts, and the citations of what was learnt in each."""

    bench: StoreBench
    shop: Path
    api: Path
    in_shop: str
    in_api: str

    @property
    def environment(self) -> dict[str, str]:
        return {"SLOWWAVE_HOME": str(self.bench.settings.home), "HOME": str(self.shop.parent), "PATH": "/usr/bin:/bin"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-I", str(Path(sys.executable).with_name("slowwave")), "mcp", *arguments]

    def parameters(self, *arguments: str, cwd: Path | None = None) -> StdioServerParameters:
        program, *rest = self.command(*arguments)
        return StdioServerParameters(command=program, args=rest, env=self.environment, cwd=cwd or self.shop)


@pytest.fixture(scope="session")
def _learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A folder with the data and two checkouts, as `kept` and at the place where it works: folders are known by their
    paths. And what was learnt in each."""
    place = tmp_path_factory.mktemp("learnt")
    here = place / "here"
    shop, api = (project_of(_made(here / name)).id for name in ("shop", "api"))
    with store_bench(here) as bench:
        one = bench.add("a1", SHOP_BODY, human=(1, 2), project=shop)
        two = bench.add("b2", API_BODY, project=api)
        text = print_summary(
            {
                HEADINGS[1]: [f"Never force-push to `main` [{one}]"],
                HEADINGS[2]: [f"The canary zebra-umbrella ships before invoices [{two}]"],
                HEADINGS[3]: [f"shop: Checkout, success [{one}]", f"api: Invoices, success [{two}]"],
            }
        )
        look = call("read", "c0", path="phase2_workspace_diff.md")
        bench.model.answers = [[look, call("write", path="memory_summary.md", content=text)], "done"]
        asyncio.run(run(bench.runtime()))
        assert bench.workspace.summary() == text
    shutil.copytree(here, place / "kept")
    return place, one, two


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def home(_learnt: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    place, one, two = _learnt
    here = place / "here"
    shutil.rmtree(here)
    shutil.copytree(place / "kept", here)
    with store_bench(here) as bench:
        bench.runs = 1  # the one that made it
        monkeypatch.setenv("SLOWWAVE_HOME", str(bench.settings.home))
        yield Home(bench, here / "shop", here / "api", one, two)


Talk = Callable[[Client], Awaitable[T]]


def talk(server: Any, say: Talk[T], **options: Any) -> T:
    """Connects the SDK's own client to a server (or to what starts one) and runs the conversation."""

    async def whole() -> T:
        failure: Exception
        async with asyncio.timeout(SECONDS), Client(server, **options) as client:
            try:
                return await say(client)
            except Exception as error:  # noqa: BLE001  # out of the client's task groups first
                failure = error
        raise failure

    return asyncio.run(whole())


def inside(project: Path | None, say: Talk[T], *, own: Path | None = None, **options: Any) -> T:
    """The same with a server in this process."""
    return talk(MemoryServer(Worker(), project, own).sdk(), say, **options)


def text_of(result: Any) -> str:
    """The text of a tool's answer."""
    assert isinstance(result, CallToolResult)
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def ask(client: Client, tool: str, **arguments: Any) -> str:
    """The text of a call that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not getattr(result, "is_error", True), text_of(result)
    return text_of(result)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """The sentence of a call that must not."""
    result = await client.call_tool(tool, arguments)
    assert getattr(result, "is_error", False), text_of(result)
    return text_of(result)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False
