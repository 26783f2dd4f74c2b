"""What a consolidation sends: the list of inputs and what is new, not everything again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from consolidate.outcomes import Published
from consolidate.run import run
from memory.documents import print_summary
from memory.llm.base import Message
from memory.model import DIFF_NAME, HEADINGS, SUMMARY_NAME
from memory.testing import call, store_bench

BODY = """# Task {number}
Outcome: success
## What worked
- `make part{number}` builds part {number} [e4]
"""
SENT_BYTES = 40_000
"""Most of what all requests of such a consolidation may hold: about 10,000 tokens."""


def listed(citations: Sequence[str]) -> str:
    """A summary in which 25 sources share a line."""
    starts = range(0, len(citations), 25)
    lines = [f"Task {n}: `make part{n}` " + " ".join(f"[{c}]" for c in citations[n : n + 25]) for n in starts]
    return print_summary({HEADINGS[3]: lines})


@pytest.mark.fault("X2")
async def test_two_hundred_sources_and_one_that_changed_cost_what_the_one_costs(tmp_path: Path) -> None:
    with store_bench(tmp_path) as bench:
        citations = [bench.add(f"s{number}", BODY.format(number=number)) for number in range(200)]
        text = listed(citations)
        bench.model.answers = [
            [call("read", path=DIFF_NAME)],
            [call("write", path=SUMMARY_NAME, content=text)],
            "done",
        ]
        assert isinstance(await run(bench.runtime()), Published)
        bench.model.requests.clear()
        bench.add("s7", BODY.format(number=7).replace("builds", "builds and signs"))
        bench.clock.advance(7200)
        bench.model.answers = [
            [call("read", path=DIFF_NAME), call("read", "c2", path=SUMMARY_NAME)],
            [call("edit", path=SUMMARY_NAME, old="Task 0:", new="Task 0, success:")],
            "done",
        ]
        assert isinstance(await run(bench.runtime()), Published)
        sent: dict[int, Message] = {id(m): m for request in bench.model.requests for m in request}
        whole = "\n".join(message.content for message in sent.values())
    assert "builds and signs" in whole
    assert not [number for number in range(200) if f"builds part {number}\n" in whole]
    assert len(whole.encode()) < SENT_BYTES
