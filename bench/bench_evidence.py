"""Evidence: reading, choosing, redacting and printing every session of a corpus, against `orjson.loads` per line."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import orjson

from bench.timing import Row, corpus, paired
from memory.model import Host, Transcript
from memory.redact import Redactor
from memory.settings import ExtractSettings, RedactSettings
from memory.tokens import TokenCounter
from rollouts.adapters import ADAPTERS
from rollouts.evidence import Evidence, build

BOUND = 2.0
BUDGET = 22_400
"""Tokens: 70 % of the window that is assumed where none is known."""

_TOKENS = TokenCounter()
_REDACTOR = Redactor(RedactSettings())
_SETTINGS = ExtractSettings()
Files = list[tuple[Host, Path]]


def sessions(root: Path) -> Files:
    """Every session file, whatever its name: `claude/a/b/full.jsonl` is read by the reader of its first folder."""
    return [(host, path) for host in Host for path in sorted((root / host.value).rglob("*.jsonl*"))]


def read(files: Files) -> list[Transcript]:
    return [ADAPTERS[host].read(path) for host, path in files]


def evidence(transcript: Transcript) -> Evidence:
    return build(transcript, budget_tokens=BUDGET, settings=_SETTINGS, tokens=_TOKENS, redactor=_REDACTOR)


def both(files: Files) -> None:
    """As the pipeline does it: one rollout after the other, none kept."""
    for host, path in files:
        evidence(ADAPTERS[host].read(path))


def bare(files: Files) -> None:
    """The yardstick: each line parsed, nothing kept."""
    for _, path in files:
        with path.open("rb") as lines:
            for line in lines:
                try:
                    orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue


def run() -> list[Row]:
    root = corpus()
    if root is None:
        return []
    files = sessions(root)
    base = lambda: bare(files)  # noqa: E731
    rows = [paired(lambda: both(files), base, rounds=7).row("evidence of the corpus", BOUND)]
    rows.append(paired(lambda: read(files), base).row("  of it reading"))
    transcripts = read(files)
    made = [evidence(transcript) for transcript in transcripts]
    texts = [found.text for found in made]
    long = [text for text in texts if len(text.encode()) > BUDGET]
    parts: dict[str, Callable[[], object]] = {
        "  of it choosing, redacting, printing": lambda: [evidence(transcript) for transcript in transcripts],
        "    of it redaction": lambda: [_REDACTOR.redact(text) for text in texts],
        "    of it the check of the budget": lambda: [_TOKENS.count(text) for text in long],
    }
    rows += [paired(work, base).row(name) for name, work in parts.items()]
    size, printed = sum(path.stat().st_size for _, path in files), sum(len(text.encode()) for text in texts)
    filled = [found.tokens / BUDGET for found in made if found.gaps]
    rows += [
        Row("sessions", len(files), None, "", f"{size / 1e6:.1f} MB read, {printed / 1e6:.1f} MB printed"),
        Row("sessions over their budget", sum(found.tokens > BUDGET for found in made), 0, ""),
        Row(
            "budget used where it binds",
            statistics.median(filled) if filled else 0.0,
            None,
            "",
            f"{len(filled)} sessions",
        ),
    ]
    return rows
