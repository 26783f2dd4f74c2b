"""The whole pipeline with a REAL model that knows nothing: it survives, publishes only what the gate passes, and its
ledger has one row for every call on the wire."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from consolidate import gate
from consolidate.run import gather
from flows import pipeline
from memory.runtime import Runtime, open_runtime
from memory.settings import Settings, load
from rollouts.eligibility import Picks
from tests.smoke.wire import Wire

pytestmark = pytest.mark.smoke

SAMPLES = Path(__file__).resolve().parents[2] / "examples" / "sessions"
TIGHT = {
    "extract": {
        "idle_hours": 0,
        "max_age_days": 36_500,
        "repairs": 0,
        "request_minutes": 0.75,
        "max_output_tokens": 64,
        "lease_minutes": 2,
    },
    "consolidate": {
        "unused_days": 36_500,
        "max_requests": 3,
        "batch_minutes": 1,
        "request_minutes": 0.75,
        "max_output_tokens": 64,
    },
}
"""A few seconds for each stage: what a tiny model says longer is not better."""


def settings(home: Path, host: str, **model: object) -> Settings:
    """One host's sample sessions at a time, so that each run has new ones."""
    rollouts = {"hosts": [host], f"{host}_roots": [str(SAMPLES / host)]}
    return load(home=home, overrides={"memory": {"mode": "long"}, "rollouts": rollouts, **TIGHT, "model": model})


def run(chosen: Settings, *, limit: int, extract: bool = True, consolidate: bool = True) -> pipeline.RunReport:
    options = pipeline.Options(extract=extract, consolidate=consolidate, picks=Picks(limit=limit))
    with open_runtime(chosen) as runtime:
        return asyncio.run(pipeline.run_until_stopped(runtime, options))


def judged_again(runtime: Runtime) -> gate.Verdict:
    """The confirmed summary under the rules, with nothing taken from the run that published it."""
    selection = gather(runtime, None)
    sources = {
        item.citation: gate.source_from_rollout(item.citation, item.text) for item in selection.chosen if not item.note
    }
    text = runtime.workspace.summary_path.read_bytes()

    def secrets(text: str) -> list[str]:
        return [finding.rule for finding in runtime.redactor.findings(text)]

    return gate.judge(gate.Case(text, selection.manifest, sources, secrets=secrets))


@pytest.mark.req("Z079", "Z100", "Z103", "C022")
@pytest.mark.fault("M21")
def test_a_model_that_knows_nothing_publishes_nothing_unverified_and_every_call_is_in_the_ledger(
    wire: Wire, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    embedded = settings(home, "codex", provider="offline")
    assert run(embedded, limit=2).outcome == "ok"
    assert run(settings(home, "claude", provider="offline"), limit=2, consolidate=False).outcome == "ok"
    with open_runtime(embedded) as runtime:
        before = runtime.workspace.summary_path.read_bytes()
        versions = len(runtime.store.versions.all())
    assert wire.calls == [], "the embedded engine uses no network"

    served = settings(home, "pi", provider="openai", base_url=wire.url, name="smollm2", window=3000, retries=0)
    report: Any = pipeline.detail(run(served, limit=1))

    assert report["outcome"] in {"ok", "failed", "nothing"}
    stage2 = report["consolidate"]
    with open_runtime(served) as runtime:
        if stage2["code"] == "published":
            assert len(runtime.store.versions.all()) == versions + 1
        else:
            assert stage2["code"] == "failed", stage2
            assert stage2["error"]
            assert runtime.workspace.summary_path.read_bytes() == before
        assert judged_again(runtime).violations == ()
    assert {call.request["model"] for call in wire.calls} == {"smollm2"}
    assert report["spend"]["requests"] == len(wire.calls) >= 2
    if all(call.status == 200 for call in wire.calls):
        total_in, total_out = (sum(column) for column in zip(*wire.tokens(), strict=True))
        assert (report["spend"]["input_tokens"], report["spend"]["output_tokens"]) == (total_in, total_out)
