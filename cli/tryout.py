"""`slowwave try`: the main job once, in a throw-away home, on the user's own sessions or on the samples."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from cli import look
from cli.output import line, print_json
from cli.run import execute, print_report
from flows import pipeline
from memory.clock import SystemClock
from memory.documents import claims
from memory.errors import UsageError
from memory.redact import Redactor
from memory.settings import Settings, load
from memory.state import Store
from memory.workspace import Workspace
from recall.trace import Tracer
from rollouts.discover import discover
from rollouts.eligibility import Picks, select

OWN_LIMIT = 6
"""Sessions of the user's own that a first try takes: enough to see what comes of it, soon done."""
SAMPLE_LIMIT = 1_000
ALONE = {"memory": {"mode": "long"}, "state": {"url": ""}}
"""Whatever the user's settings say: a try has a state of its own, in its own home."""


def try_out(*, samples: str, as_json: bool) -> None:
    """Nothing outside the throw-away home is written; sessions are only read."""
    with tempfile.TemporaryDirectory(prefix="slowwave-try-") as folder:
        home = Path(folder) / "home"
        settings = load(home=home, overrides=ALONE)
        own = _eligible(settings)
        if own:
            picks = Picks(limit=OWN_LIMIT)
            what = f"your own sessions ({own} eligible; the newest {min(own, OWN_LIMIT)} are taken)"
        else:
            settings, picks = _sample_settings(Path(folder), samples), Picks(limit=SAMPLE_LIMIT)
            what = "the sample sessions, since you have no eligible session of your own"
        if not as_json:
            line(f"Trying slowwave on {what}.")
        report = execute(settings, pipeline.Options(picks=picks), quiet=as_json)
        _show(settings, report, as_json=as_json)
    sys.exit({"failed": 1, "cancelled": 130}.get(report.outcome, 0))


def _eligible(settings: Settings) -> int:
    clock = SystemClock()
    with Store.open(settings, clock) as store:
        discover(settings, clock, store)
        found = select(store.rollouts.all(), now=clock.now(), extract=settings.extract, rollouts=settings.rollouts)
    return len(found.chosen) + found.waiting


def _sample_settings(folder: Path, samples: str) -> Settings:
    """Only the samples are read, whatever their age."""
    root = Path(samples).absolute() if samples else None
    if root is None or not root.is_dir():
        raise UsageError("You have no eligible session yet, and there are no samples.", hint="Give --samples DIR.")
    roots = {f"{host}_roots": [str(root / host)] for host in ("codex", "claude", "pi", "generic")}
    return load(
        home=folder / "samples",
        overrides={
            **ALONE,
            "rollouts": roots,
            "extract": {"idle_hours": 0, "max_age_days": 36_500},
            "consolidate": {"unused_days": 36_500},
        },
    )


def _show(settings: Settings, report: pipeline.RunReport, *, as_json: bool) -> None:
    clock = SystemClock()
    with Store.open(settings, clock) as store:
        workspace = Workspace.open(settings.home, store.generation)
        text = workspace.summary() or ""
        found = claims(text)
        tracer = Tracer(store, workspace, Redactor(settings.redact))
        # A preference tells a newcomer more than an index line.
        shown = next((c for c in found if c.section == "## User preferences"), found[0] if found else None)
        traced = tracer.claim(shown) if shown else None
    if as_json:
        print_json(
            {
                "run": pipeline.detail(report),
                "summary": text,
                "why": look.trace_json(traced) if traced else None,
            }
        )
        return
    line("")
    print_report(report)
    line("\n── the published summary ──", style="bold")
    line(text.rstrip("\n") or "(nothing was published)")
    if traced is not None:
        line(f"\n── slowwave why {traced.claim.line} ──", style="bold")
        look.print_claim(traced)
    line("\n── how to go on ──", style="bold")
    line("slowwave run                 the same on all your sessions, kept in your data folder")
    line("slowwave status | why | show what was taken, what was skipped, and why")
    line("model.base_url, model.name, model.api_key in config.toml (or OPENAI_API_KEY and")
    line("SLOWWAVE_MODEL_NAME) bring a real model; without them the built-in engine quotes and counts.")
