"""What memory said is not said by anybody: five rounds of inject → session → extract → consolidate change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flows import pipeline
from memory.documents import claims
from memory.runtime import open_runtime
from memory.testing import FrozenClock
from tests.self_ingestion.hosts import HOSTS, Hosts

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FACTS = (
    ("user", "From now on always run the tests with vitest, never jest. We use pnpm in this project, not npm."),
    ("assistant", "I changed the script: it runs vitest now."),
    ("user", "The staging server listens on port 9090, please remember that."),
    ("assistant", "Done: port 9090 is in the settings."),
)
Wrap = Callable[[str], str]
FORMS: dict[str, Wrap] = {
    "our fence": lambda text: f'<slowwave-memory generation="g" version="3">\n{text}\n</slowwave-memory>',
    "our fence, never closed": lambda text: f"<slowwave-memory>\n{text}",
    "memories of the host": lambda text: f"<memories>\n{text}\n</memories>",
    "memory of the host": lambda text: f"<memory>\n{text}\n</memory>",
    "a reminder": lambda text: (
        "<system-reminder>\nContents of /home/dev/.claude/projects/x/memory/MEMORY.md (auto memory):\n"
        f"{text}\n</system-reminder>"
    ),
}
"""How a session of a host carries what memory told it."""


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    made = Hosts(tmp_path)
    made.configure_hosts()
    return made


def run(hosts: Hosts, clock: FrozenClock) -> tuple[str, dict[str, str]]:
    """One run; the summary and the rollout summaries after it."""
    with open_runtime(hosts.settings(), clock=clock) as runtime:
        report = asyncio.run(pipeline.run(runtime))
        assert report.outcome in {"ok", "nothing"}, report
        return runtime.workspace.summary() or "", runtime.workspace.rollout_summaries()


@pytest.mark.req("Z074", "Z072")
@pytest.mark.fault("M66")
@pytest.mark.parametrize("form", FORMS)
def test_five_rounds_without_news_leave_memory_as_it_is(hosts: Hosts, form: str) -> None:
    clock = FrozenClock(NOW)
    hosts.session("codex", *FACTS, began=NOW - timedelta(hours=20))
    first, records = run(hosts, clock)
    assert len(claims(first)) >= 2
    summary = first
    for _ in range(5):
        for host in HOSTS:
            block = FORMS[form](summary)
            told = f"Please go on.\n{block}" if form.endswith("never closed") else f"{block}\n\nPlease go on."
            turns = [("user", told), ("assistant", "Done.")]
            hosts.session(host, *turns, began=clock.now())
        clock.advance(8 * 3600)
        summary, grown = run(hosts, clock)
        assert summary == first
        assert grown == records


@pytest.mark.req("Z074")
@pytest.mark.parametrize("host", HOSTS)
def test_a_session_in_which_memory_is_quoted_and_acted_upon_reaches_a_fixed_point(hosts: Hosts, host: str) -> None:
    """The agent repeats what memory told it, the person says nothing new: no line of memory gains a new wording."""
    clock = FrozenClock(NOW)
    hosts.session("codex", *FACTS, began=NOW - timedelta(hours=20))
    first, _ = run(hosts, clock)
    sizes, texts, summary = [], [], first
    for _ in range(5):
        with open_runtime(hosts.settings(), clock=clock) as runtime:
            summary = runtime.workspace.summary() or ""
        block = FORMS["our fence"](summary)
        echoed = "As memory says: from now on always run the tests with vitest, never jest. The suite passes."
        hosts.session(host, ("user", f"{block}\n\nPlease go on."), ("assistant", echoed), began=clock.now())
        clock.advance(8 * 3600)
        summary, _ = run(hosts, clock)
        texts.append(sorted(claim.text for claim in claims(summary)))
        sizes.append(len(summary.encode()))
    assert texts[1:] == texts[:1] * 4, texts
    personal = {"## User Profile", "## User preferences"}
    assert [c.text for c in claims(summary) if c.section in personal] == [
        c.text for c in claims(first) if c.section in personal
    ]
    # Only citations may be added, and they are bounded by the sessions.
    assert sizes[-1] - sizes[0] <= 4 * 16
