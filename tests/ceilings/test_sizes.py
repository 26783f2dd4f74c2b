"""The one table of limits says what the code holds things to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from consolidate import agent, tools
from memory import live, model
from memory.settings import ExtractSettings
from memory.state import jobs
from memory.workspace import diff, topics
from recall import entry_rules
from rollouts import lines

TABLE = Path(__file__).resolve().parents[2] / "docs" / "ceilings.md"
IN_CODE = {
    "one line of a session file": f"{lines.MAX_LINE:,} bytes",
    "one event of a session": f"{model.MAX_EVENT_TEXT:,} characters",
    "images and other media of a session": "0 bytes",
    "evidence of one session": f"{ExtractSettings().window_share:.0%} of the model's window".replace("%", " %"),
    "one rollout summary": f"{model.MAX_ROLLOUT_SUMMARY_BYTES:,} bytes",
    "the summary": f"{model.MAX_SUMMARY_BYTES:,} bytes",
    "all notes": f"{model.MAX_NOTES_BYTES:,} bytes",
    "one entry of the memory tools": f"{entry_rules.MAX_CONTENT:,} characters",
    "all topics": f"{topics.MAX_ALL_BYTES:,} bytes",
    "sources of one consolidation": "`consolidate.max_sources`",
    "the diff an agent is shown": f"{diff.MAX_DIFF_CHARS:,} characters",
    "one result of an agent's tool": f"{tools.MAX_RESULT_CHARS:,} characters",
    "the agent's conversation": f"{agent.WINDOW_SHARE:.0%} of the model's window".replace("%", " %"),
    "message of an error that is kept": f"{jobs.MAX_MESSAGE:,} characters",
    "what a run says of its progress": f"{live.MAX_BYTES:,} bytes",
}


@pytest.mark.req("C065")
def test_the_documented_limits_are_those_of_the_code() -> None:
    _, _, text = TABLE.read_text(encoding="utf-8").partition("## What limits the size of things")
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| [^|]+ \|$", text, re.MULTILINE)
    assert dict(rows[1:] if rows[0][0] == "what" else rows) == IN_CODE
