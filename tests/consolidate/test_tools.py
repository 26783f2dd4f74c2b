"""Whatever a model passes to its tools, it gets a text back and nothing but the summary changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consolidate.tools import MAX_RESULT_CHARS, TOOLS, carry_out
from memory.llm.base import ToolCall
from memory.model import InputFile, Manifest
from memory.testing import call
from memory.workspace import Staging, Workspace

TEXT = "---\nsource: codex:1\n---\n\n# A\n" + "b" * (MAX_RESULT_CHARS + 10)
PATH = "rollout_summaries/00000000000000aa.md"


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    import hashlib

    workspace = Workspace.open(tmp_path / "home", "g1")
    text = TEXT[:8_000]
    workspace.write_rollout_summary("00000000000000aa", text)
    item = InputFile("00000000", PATH, hashlib.sha256(text.encode()).hexdigest(), len(text), "p")
    return workspace.stage("r1", Manifest("g1", (item,)), {PATH: text}, "# diff\n")


@pytest.mark.req("Z090", "Z092", "Z093", "Z094", "Z095")
def test_there_are_exactly_three_tools() -> None:
    assert [tool.name for tool in TOOLS] == ["read", "write", "edit"]


@pytest.mark.req("Z092", "Z094")
@pytest.mark.parametrize("name", ["bash", "exec", "fetch", "spawn_agent", "Read", ""])
def test_any_other_tool_is_an_error_the_model_can_read(staging: Staging, name: str) -> None:
    result = carry_out(ToolCall("1", name, '{"path":"memory_summary.md"}'), staging.files)
    assert not result.ok
    assert "read, write, edit" in result.text


def test_reading_writing_and_editing_the_summary_work(staging: Staging) -> None:
    assert carry_out(call("write", path="memory_summary.md", content="v1\nold\n"), staging.files).ok
    assert carry_out(call("edit", path="memory_summary.md", old="old", new="new"), staging.files).ok
    assert carry_out(call("read", path="memory_summary.md"), staging.files).text == "v1\nnew\n"
    assert staging.candidate() == "v1\nnew\n"
    assert carry_out(call("read", path="phase2_workspace_diff.md"), staging.files).ok


@pytest.mark.req("Z091")
@pytest.mark.parametrize("tool", ["write", "edit"])
@pytest.mark.parametrize("path", [PATH, "phase2_workspace_diff.md", "new.md", "../memory_summary.md", "/etc/passwd"])
def test_only_the_summary_can_be_written(staging: Staging, tool: str, path: str) -> None:
    before = {p: p.read_bytes() for p in staging.root.rglob("*") if p.is_file()}
    arguments = {"content": "x"} if tool == "write" else {"old": "b", "new": "c"}
    assert not carry_out(call(tool, path=path, **arguments), staging.files).ok
    assert {p: p.read_bytes() for p in staging.root.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    "raw", ["", "{", "[]", "null", "3", '{"path": 3}', '{"path": "a", "more": 1}', '{"path": true}']
)
def test_malformed_arguments_are_answered_not_raised(staging: Staging, raw: str) -> None:
    assert not carry_out(ToolCall("1", "read", raw), staging.files).ok


def test_deeply_nested_arguments_are_answered(staging: Staging) -> None:
    assert not carry_out(ToolCall("1", "read", "[" * 100_000), staging.files).ok


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(["read", "write", "edit"]), path=st.text(max_size=40), more=st.text(max_size=40))
def test_no_path_or_text_leaves_the_staging_area(staging: Staging, name: str, path: str, more: str) -> None:
    arguments = {"path": path}
    arguments |= {"read": {}, "write": {"content": more}, "edit": {"old": more, "new": "x"}}[name]
    result = carry_out(ToolCall("1", name, json.dumps(arguments)), staging.files)
    assert not result.ok or path == "memory_summary.md"
