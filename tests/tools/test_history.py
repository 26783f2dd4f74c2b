"""Any history of remembering and forgetting leaves what a dictionary would hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.testing import store_bench
from memory.workspace import healing
from memory.workspace.topic_text import key
from recall.scope import Viewer
from recall.tools import MemoryTools

TOPICS, TITLES = ("testing", "Testing ", "部署"), ("First", "first", "## Second", "第三")
DEEDS = st.tuples(
    st.sampled_from(["user", "project", "agent"]),
    st.sampled_from(["profile", "log", "note", "forget"]),
    st.sampled_from(TOPICS),
    st.sampled_from(TITLES),
    st.sampled_from(["One\tand  \n    two", "## Two\n\n- three", "\\# four", "五 `six`\n\n```\n# seven\n```"]),
)


@pytest.mark.req("P011", "P013", "P025", "P041")
@pytest.mark.fault("M48", "M54", "M42")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(deeds=st.lists(DEEDS, min_size=1, max_size=12))
def test_any_history_leaves_what_a_dictionary_would_hold(deeds: list[tuple[str, str, str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder, store_bench(Path(folder)) as bench:
        memory = MemoryTools(
            bench.settings, Viewer("aaaaaaaaaaaa", "shop"), clock=bench.clock, forgetting=bench.workspace.remove_note
        )
        expected: dict[tuple[str, str, str], tuple[str, str]] = {}
        ids: dict[tuple[str, str, str], str] = {}
        for scope, tier, topic, title, content in deeds:
            bench.clock.advance(1)
            name = (scope, key(topic), key(title))
            if tier == "forget":
                if name in expected:
                    memory.forget(ids.pop(name))
                    del expected[name]
                continue
            made = memory.remember(scope=scope, tier=tier, topic=topic, title=title, content=content)
            assert made.updated is (name in expected)
            expected[name], ids[name] = (tier, content), made.id
        entries = {(one.scope, key(one.topic), key(one.title)): one for one in memory.list().entries}
        assert {name: one.tier for name, one in entries.items()} == {name: tier for name, (tier, _) in expected.items()}
        for name, (_, content) in expected.items():
            text = memory.recall(id=ids[name]).text
            assert text is not None
            assert text.text == content
        assert bench.workspace.topics.half_done() == []
        assert healing.twins(bench.workspace.topics, bench.workspace.notes().notes) == []
