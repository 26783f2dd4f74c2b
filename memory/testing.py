"""Doubles for tests: a clock that moves when told and a model that says what it is told. Never used in production."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from memory.documents import print_rollout_summary
from memory.errors import InvalidAnswerError
from memory.llm.base import (
    ByteTokens,
    CallContext,
    CallRecord,
    ChatReply,
    Message,
    StructuredReply,
    T,
    ToolCall,
    ToolSpec,
    Usage,
)
from memory.model import Boundary, Outcome, RolloutId, SummaryHeader
from memory.runtime import Runtime
from memory.settings import Settings, load
from memory.state import Lease, Ledger, OutputRow, Store
from memory.workspace import Workspace


class FrozenClock:
    """Time stands still until `advance`. `sleep` advances it and yields once, so back-off needs no waiting."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
        self._monotonic = 1000.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Moves wall and monotonic clock."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def set(self, moment: datetime) -> None:
        """Moves the wall clock alone, forwards or back, as a correction of the machine's time would."""
        self._now = moment

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)


Answer = str | dict[str, Any] | Exception | Sequence[ToolCall] | Callable[[Sequence[Message]], Any]


@dataclass(slots=True)
class ScriptedModel:
    """Answers from a list, in order; a callable answer sees the messages; an exception is raised.

    For `complete_structured` an answer is the raw text or a dict dumped to JSON; for `chat` a text or a list of
    tool calls. `requests` keeps what was sent. Running out of answers raises AssertionError: a test's mistake.
    """

    answers: list[Answer] = field(default_factory=list)
    name: str = "scripted-model"
    provider: str = "scripted"
    context_window: int | None = None
    requests: list[tuple[Message, ...]] = field(default_factory=list)
    tools_seen: list[tuple[str, ...]] = field(default_factory=list)
    repeat_last: bool = False
    usage: Usage = field(default_factory=lambda: Usage(input_tokens=100, output_tokens=20))

    async def window(self) -> int | None:
        return self.context_window

    async def complete_structured(
        self, messages: Sequence[Message], schema: type[T], *, max_output_tokens: int
    ) -> StructuredReply[T]:
        answer = self._next(messages)
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        try:
            value = schema.model_validate_json(text, strict=True)
        except ValidationError as error:
            reasons = [f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in error.errors()]
            kind = "parse" if error.errors()[0]["type"] == "json_invalid" else "schema"
            raise InvalidAnswerError("The answer does not fit the schema.", reasons=reasons, kind=kind) from None
        return StructuredReply(value, self.usage, text)

    async def chat(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, max_output_tokens: int
    ) -> ChatReply:
        self.tools_seen.append(tuple(tool.name for tool in tools))
        answer = self._next(messages)
        if isinstance(answer, str):
            return ChatReply(answer, (), self.usage)
        if isinstance(answer, ChatReply):
            return answer
        return ChatReply("", tuple(answer), self.usage, finish="tool_calls")

    async def close(self) -> None:
        return None

    def _next(self, messages: Sequence[Message]) -> Any:
        self.requests.append(tuple(messages))
        if not self.answers:
            raise AssertionError("ScriptedModel has no answer left")
        answer = self.answers[0] if self.repeat_last and len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer(messages)
            if isinstance(answer, Exception):
                raise answer
        return answer


@dataclass(slots=True)
class OpenMeter:
    """A meter without ceilings that remembers what passed."""

    admitted: list[tuple[CallContext, int, int]] = field(default_factory=list)
    records: list[CallRecord] = field(default_factory=list)

    def admit(self, context: CallContext, model: str, *, input_tokens: int, output_tokens: int) -> None:
        self.admitted.append((context, input_tokens, output_tokens))

    def record(self, record: CallRecord) -> None:
        self.records.append(record)


def call(name: str, call_id: str = "c1", /, **arguments: Any) -> ToolCall:
    """A tool call with JSON arguments."""
    return ToolCall(call_id, name, json.dumps(arguments, ensure_ascii=False))


def dump(value: BaseModel) -> str:
    """A model as the JSON text a provider would send."""
    return value.model_dump_json()


@dataclass
class StoreBench:
    """One store under test. `add` puts a finished extraction into it, `runtime` starts a run."""

    settings: Settings
    clock: FrozenClock
    store: Store
    workspace: Workspace
    model: ScriptedModel
    runs: int = 0

    def runtime(self, *, trigger: str = "manual", **sections: Mapping[str, object]) -> Runtime:
        self.runs += 1
        settings = self.settings
        for section, keys in sections.items():
            settings = settings.model_copy(update={section: getattr(settings, section).model_copy(update=dict(keys))})
        run_id = f"run-{self.runs}"
        return Runtime(
            settings=settings,
            clock=self.clock,
            store=self.store,
            workspace=self.workspace,
            extract_model=self.model,
            consolidate_model=self.model,
            meter=Ledger(self.store, settings.budget, self.clock, run_id),
            tokens=ByteTokens(),
            run_id=run_id,
            owner=f"test:{run_id}",
            trigger=trigger,
        )

    def add(
        self,
        session: str,
        body: str,
        *,
        human: tuple[int, ...] = (1,),
        ended: datetime | None = None,
        project: str = "shop",
    ) -> str:
        """A kept rollout summary of `codex:<session>`; returns its citation."""
        rollout = RolloutId.parse(f"codex:{session}")
        moment = ended or self.clock.now() - timedelta(days=1)
        boundary = Boundary(len(body), 9, hashlib.sha256(body.encode()).hexdigest())
        header = SummaryHeader(
            rollout,
            project,
            project,
            f"/home/dev/{project}",
            "main",
            moment,
            moment,
            boundary,
            Outcome.SUCCESS,
            session,
            human,
        )
        text = print_rollout_summary(header, body)
        sha = self.workspace.write_rollout_summary(rollout.source_id, text)
        lease = self.store.jobs.claim(
            "extract", str(rollout), boundary=boundary.key(), owner="test", lease_seconds=60, max_failures=3
        )
        assert isinstance(lease, Lease)
        row = OutputRow(
            rollout, self.store.generation, boundary, True, Outcome.SUCCESS, session, sha, project, project, moment,
            self.clock.now(), "scripted-model",
        )  # fmt: skip
        with self.store.write() as tx:
            self.store.outputs.save(lease, row, tx)
            self.store.jobs.succeed(lease, tx)
        return rollout.citation

    def remove(self, session: str) -> None:
        """Takes a source away, as a forget does."""
        rollout = RolloutId.parse(f"codex:{session}")
        self.workspace.remove_rollout_summary(rollout.source_id)
        self.store.outputs.delete(rollout)


@contextmanager
def store_bench(folder: Path, clock: FrozenClock | None = None) -> Iterator[StoreBench]:
    """A fresh home with state and workspace under `folder`."""
    moment = clock or FrozenClock()
    settings = load(environ={"SLOWWAVE_HOME": str(folder / "home"), "HOME": str(folder)})
    with Store.open(settings, moment) as store:
        yield StoreBench(settings, moment, store, Workspace.open(settings.home, store.generation), ScriptedModel())
