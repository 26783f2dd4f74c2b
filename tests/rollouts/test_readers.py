"""What holds for the readers of Codex and Claude Code alike: nothing raises, numbers never change, real files read."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.errors import UnreadableRollout
from memory.model import MAX_EVENT_TEXT, Event, Host, Tier, Transcript
from rollouts.adapters import ADAPTERS

DATA = Path(__file__).parent / "data"
CLAUDE_NAME = "5f0c0000-0000-4000-8000-0000000000aa.jsonl"
FILES = {
    Host.CODEX: ("codex_all_types.jsonl", "codex_bare.jsonl"),
    Host.CLAUDE: (CLAUDE_NAME,),
}
NAMES = {Host.CODEX: "rollout-2026-11-02T09-15-00-x.jsonl", Host.CLAUDE: CLAUDE_NAME}
HOSTS = tuple(FILES)


def lines_of(host: Host) -> list[bytes]:
    return [line for name in FILES[host] for line in (DATA / name).read_bytes().splitlines()]


def unchanging(event: Event) -> tuple[object, ...]:
    return event.number, event.text, event.kind, event.time, event.tool, event.call_id, event.cwd, event.offset


def check(transcript: Transcript, size: int) -> None:
    assert [event.number for event in transcript.events] == list(range(1, len(transcript.events) + 1))
    assert transcript.boundary.events == len(transcript.events)
    assert transcript.boundary.offset <= size
    for event in transcript.events:
        assert (event.tier is Tier.DERIVED) == (event.derived_from is not None)
        assert len(event.text) <= MAX_EVENT_TEXT
        assert event.full_chars >= len(event.text) or event.full_chars > MAX_EVENT_TEXT
        assert "\0" not in event.text
        event.text.encode()


# -- growth -------------------------------------------------------------------------------------------


@pytest.mark.req("Z021")
@pytest.mark.parametrize(("host", "name"), [(host, name) for host, names in FILES.items() for name in names])
def test_numbers_and_texts_never_change_when_a_file_grows(host: Host, name: str, tmp_path: Path) -> None:
    whole = ADAPTERS[host].read(DATA / name)
    path = tmp_path / NAMES[host]
    data = (DATA / name).read_bytes()
    grown, part = b"", whole
    for line in data.splitlines(keepends=True):
        grown += line
        path.write_bytes(grown)
        part = ADAPTERS[host].read(path)
        assert [unchanging(event) for event in part.events] == [
            unchanging(event) for event in whole.events[: len(part.events)]
        ]
        limited = ADAPTERS[host].read(DATA / name, limit=len(grown))
        assert (limited.events, limited.boundary) == (part.events, part.boundary)
    assert part.events == whole.events


# -- damage -------------------------------------------------------------------------------------------

ODD: list[Any] = [None, True, 0, -1, 1.5, 10**30, "", "x", "\ud800", [], ["x", None, {}], {}, {"a": [1]}, [[[]]]]


def mutate(value: Any, chance: random.Random) -> Any:
    """The value with one part dropped, replaced, doubled or nested, somewhere inside."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        changed = dict(value)
        if chance.random() < 0.25:
            del changed[key]
        else:
            changed[key] = mutate(value[key], chance)
        return changed
    if isinstance(value, list) and value and chance.random() < 0.85:
        at = chance.randrange(len(value))
        return [*value[:at], mutate(value[at], chance), *value[at + chance.randrange(2) :]]
    return chance.choice(ODD)


def damage(line: bytes, chance: random.Random) -> bytes:
    """A line as a crash, a bad disk, another tool or another version may leave it."""
    match chance.randrange(6):
        case 0:
            return line[: chance.randrange(len(line) + 1)]
        case 1:
            at = chance.randrange(max(1, len(line)))
            return line[:at] + bytes([chance.randrange(256)]) + line[at + 1 :]
        case 2:
            return line + line
        case 3:
            return line[: chance.randrange(len(line) + 1)] + line
        case _:
            return json.dumps(mutate(json.loads(line), chance)).encode()


@pytest.mark.parametrize("host", HOSTS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), newline=st.sampled_from([b"\n", b"\r\n"]))
def test_damaged_files_never_raise(host: Host, tmp_path: Path, seed: int, newline: bytes) -> None:
    chance = random.Random(seed)
    lines = [damage(line, chance) if chance.random() < 0.3 else line for line in lines_of(host)]
    if chance.random() < 0.3:
        chance.shuffle(lines)
    data = newline.join(lines)[: chance.randrange(10**6)]
    path = tmp_path / NAMES[host]
    path.write_bytes(data)
    check(ADAPTERS[host].read(path), len(data))
    try:
        peek = ADAPTERS[host].peek(path)
    except UnreadableRollout:
        return
    assert peek.header.id.host is host


@pytest.mark.parametrize("host", HOSTS)
def test_every_part_of_every_line_may_be_of_any_type(host: Host, tmp_path: Path) -> None:
    """Each value of each record in turn becomes each odd value: far more than chance would find."""
    path = tmp_path / NAMES[host]
    lines = lines_of(host)
    for odd in ODD:
        out = list(lines[:1])
        for line in lines:
            record = json.loads(line)
            for number, changed in enumerate(replaced(record, odd)):
                if isinstance(changed.get("uuid"), str):
                    changed["uuid"] += f"-{number}"  # a record seen before would be passed over
                out.append(json.dumps(changed).encode())
        path.write_bytes(b"\n".join(out) + b"\n")
        transcript = ADAPTERS[host].read(path)
        check(transcript, path.stat().st_size)
        assert len(transcript.events) > 150


def replaced(value: Any, odd: Any) -> list[Any]:
    """Every copy of a record in which one of its parts is the odd value."""
    if isinstance(value, dict):
        return [{**value, key: changed} for key in value for changed in [odd, *replaced(value[key], odd)]]
    if isinstance(value, list):
        return [
            [*value[:at], changed, *value[at + 1 :]]
            for at in range(len(value))
            for changed in [odd, *replaced(value[at], odd)]
        ]
    return []


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("data", [b"", b"\n\n  \n", b"\0" * 4096, b"\xff\xfe{\0}\0\n\0", b"{" * 5_000 + b"\n"])
def test_files_without_a_session_give_no_events_and_are_refused_by_peek(
    host: Host, tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / NAMES[host]
    path.write_bytes(data)
    assert ADAPTERS[host].read(path).events == ()
    with pytest.raises(UnreadableRollout):
        ADAPTERS[host].peek(path)


@pytest.mark.parametrize("host", HOSTS)
def test_a_vanished_file_is_unreadable(host: Host, tmp_path: Path) -> None:
    for open_it in (ADAPTERS[host].read, ADAPTERS[host].peek):
        with pytest.raises(UnreadableRollout):
            open_it(tmp_path / NAMES[host])


# -- real files ---------------------------------------------------------------------------------------

KNOWN_GAPS = {
    # A schema sampler that its publisher made drift on purpose, and trimmed records without a type.
    Host.CODEX: Counter({"None": 2, "function_call": 1, "function_result": 1}),
    Host.CLAUDE: Counter({"None": 1}),
}
WITHOUT_EVENTS = {"codex_053_rate_limit.jsonl"}


def real_files(corpus: Path, host: Host) -> list[Path]:
    derived = [path for path in (corpus / "derived").iterdir() if path.name.startswith((host.value, "rollout-"))]
    return sorted((corpus / host.value).rglob("*.jsonl")) + (
        sorted(derived) if host is Host.CODEX else sorted(p for p in derived if p.name.startswith("claude"))
    )


@pytest.mark.corpus
@pytest.mark.parametrize("host", HOSTS)
def test_every_real_file_reads_and_every_session_has_events(host: Host, corpus: Path) -> None:
    unknown: Counter[str] = Counter()
    files = real_files(corpus, host)
    assert len(files) > 10
    for path in files:
        transcript = ADAPTERS[host].read(path)
        check(transcript, 1 << 40)
        unknown.update(transcript.report.unknown_types)
        assert transcript.events or path.name in WITHOUT_EVENTS, path.name
        assert transcript.header.id.session
        evidence = [event for event in transcript.events if event.tier is not Tier.DERIVED]
        assert not any(";base64," in event.text and len(event.text) > 4_000 for event in evidence)
    assert unknown <= KNOWN_GAPS[host]


@pytest.mark.corpus
@pytest.mark.parametrize("host", HOSTS)
def test_peek_and_read_agree_about_every_real_file(host: Host, corpus: Path) -> None:
    for path in real_files(corpus, host):
        transcript = ADAPTERS[host].read(path)
        peek = ADAPTERS[host].peek(path)
        assert (peek.header.id, peek.header.kind) == (transcript.header.id, transcript.header.kind), path.name
        assert (peek.header.cwd, peek.header.started) == (transcript.header.cwd, transcript.header.started)
        said = [event for event in transcript.events if event.tier is Tier.HUMAN]
        if peek.whole and transcript.header.kind.value in {"interactive", "exec"}:
            assert bool(peek.user_chars) == bool(said), path.name


@pytest.mark.corpus
@pytest.mark.parametrize("host", HOSTS)
def test_real_files_keep_their_numbers_when_they_grow(host: Host, corpus: Path) -> None:
    for path in real_files(corpus, host):
        if path.suffix != ".jsonl" or path.stat().st_size > 400_000:
            continue
        whole = ADAPTERS[host].read(path)
        for share in (0.2, 0.5, 0.8):
            part = ADAPTERS[host].read(path, limit=int(path.stat().st_size * share))
            assert [unchanging(event) for event in part.events] == [
                unchanging(event) for event in whole.events[: len(part.events)]
            ], path.name
