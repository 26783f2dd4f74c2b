"""Asking for one rollout's record: evidence that fits, the call with its repairs, local validation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import cached_property

import prompts
from extract import form, validate
from extract.reading import Former, Reading
from extract.record import RolloutRecord, room, size
from memory.documents import PrintedEvent
from memory.errors import InvalidAnswerError, OverflowModelError
from memory.llm.base import CallContext, Message
from memory.llm.calls import ask_structured
from memory.model import SUMMARY_SECTIONS, SummaryHeader
from memory.progress import Step
from memory.runtime import Runtime
from memory.state import RolloutRow
from memory.tokens import TokenCounter
from rollouts import evidence as evidences
from rollouts.evidence import Evidence

MAX_SHRINKS = 5
SMALLEST_BUDGET = 200
"""Tokens of evidence below which halving again is pointless."""
FRAME_TOKENS = 256
"""What chat format and answer schema add to the messages."""
OUTPUT_SHARE = 0.25
"""Most of a window that is set aside for the answer; small windows would be eaten by it."""


@dataclass
class Task:
    """What stays the same over all attempts to fit one rollout into one window."""

    runtime: Runtime
    row: RolloutRow
    found: Reading
    header: SummaryHeader

    @property
    def former(self) -> Former | None:
        return self.found.former

    @cached_property
    def tokens(self) -> TokenCounter:
        """The run's counter, with what it has learnt about the model."""
        given = self.runtime.tokens
        return given if isinstance(given, TokenCounter) else TokenCounter(self.runtime.settings.model.vocabulary)

    @property
    def zone(self) -> tzinfo | None:
        """The machine's offset from UTC now: what the person's clock shows, in labels and header alike [M32]."""
        return self.runtime.clock.now().astimezone().tzinfo

    def system(self) -> str:
        return prompts.render("extract_system", sections=SUMMARY_SECTIONS, max_bytes=room(self.header))

    def user(self, evidence: str) -> str:
        former = self.former
        return prompts.render(
            "extract_input",
            rollout=str(self.row.id),
            project=self.row.project_name,
            cwd=self.row.cwd,
            branch=self.row.branch,
            started=self._local(self.header.started),
            ended=self._local(self.header.ended),
            former=former.body if former is not None and former.body else None,
            former_events=former.boundary.events if former is not None else 0,
            evidence=evidence,
        )

    def _local(self, moment: datetime | None) -> str | None:
        return None if moment is None else moment.astimezone(self.zone).isoformat(timespec="minutes")


@dataclass(slots=True)
class Answer:
    """An accepted answer; an empty body is "nothing worth keeping"."""

    body: str = ""
    slug: str = ""
    events: Mapping[int, PrintedEvent] = field(default_factory=dict)
    coverage: dict[str, object] = field(default_factory=dict)
    shrinks: int = 0
    dropped: int = 0
    suspicious: bool = False
    asked: bool = True


def budgets(task: Task, window: int) -> tuple[int, int]:
    """Tokens for the evidence of a first attempt and for the answer [Z075]."""
    settings, name = task.runtime.settings.extract, task.runtime.extract_model.name
    tokens = task.tokens
    output = max(64, min(settings.max_output_tokens, int(window * OUTPUT_SHARE)))
    fixed = tokens.count(task.system() + task.user("")) + FRAME_TOKENS
    share = min(int(window * settings.window_share), window - output)
    return max(SMALLEST_BUDGET, tokens.allowance(share, name) - fixed), output


async def ask(task: Task, window: int) -> Answer:
    """One model call where the evidence fits; on overflow half the evidence, at once, at most five times [M1 X9]."""
    budget, output = budgets(task, window)
    for shrinks in range(MAX_SHRINKS + 1):
        evidence = await asyncio.to_thread(evidence_of, task, budget)
        if evidence.no_user_text:
            # Discovery sees head and tail only: that no person spoke at all shows here, before anything is paid for.
            return Answer(coverage=dict(evidence.coverage), asked=False)
        if not evidence.events and evidence.coverage["events"]:
            raise OverflowModelError(
                f"Not one event of {task.row.id} fits beside the instructions.",
                hint="Raise model.window or use a model with a larger one.",
            )
        if not evidence.events:
            return Answer(coverage=dict(evidence.coverage), shrinks=shrinks, asked=False)
        try:
            answer = await _call(task, evidence, output)
        except OverflowModelError:
            if shrinks == MAX_SHRINKS or budget <= SMALLEST_BUDGET:
                raise
            budget = max(SMALLEST_BUDGET, min(budget, evidence.tokens) // 2)
            task.runtime.progress(
                Step("extract", f"{task.row.id}: too long for the model, halved to {budget:,} tokens")
            )
            continue
        answer.shrinks = shrinks
        answer.coverage = {**evidence.coverage, "dropped_bullets": answer.dropped}
        return answer
    raise AssertionError("unreachable")


def evidence_of(task: Task, budget: int) -> Evidence:
    """What a model may see of the rollout within a budget of tokens."""
    return evidences.build(
        task.found.transcript,
        budget_tokens=budget,
        settings=task.runtime.settings,
        tokens=task.tokens,
        redactor=task.runtime.redactor,
        since=task.former.boundary if task.former is not None else None,
        tz=task.zone,
    )


async def _call(task: Task, evidence: Evidence, output: int) -> Answer:
    """The call, its repair rounds, and as a last resort the lines of the last answer that can be proven."""
    runtime, settings = task.runtime, task.runtime.settings.extract
    check = _Check(task, evidence)
    messages = [Message("system", task.system()), Message("user", task.user(evidence.text))]
    try:
        reply = await ask_structured(
            runtime.extract_model,
            messages,
            RolloutRecord,
            check=check,
            context=CallContext("extract", runtime.run_id, str(task.row.id), task.row.project),
            meter=runtime.meter,
            clock=runtime.clock,
            settings=runtime.settings,
            deadline_seconds=settings.request_minutes * 60,
            repairs=settings.repairs,
            max_output_tokens=output,
            tokens=task.tokens,
            repair=lambda reasons: prompts.render("extract_repair", reasons=reasons),
        )
    except InvalidAnswerError as error:
        saved = check.last_resort() if error.kind == "checks" else None
        if saved is None:
            raise
        return saved
    return check.accepted(reply.value)


class _Check:
    """Local validation of one rollout's answers, with what the last one left behind."""

    def __init__(self, task: Task, evidence: Evidence) -> None:
        former = task.former.events if task.former is not None else {}
        self.events = {**former, **{event.number: event for event in evidence.events}}
        self._fresh = {event.number: event for event in evidence.events}
        self._header = task.header
        self._former = task.former is not None and bool(task.former.body)
        self._secret = task.runtime.redactor
        self._known = tuple(filter(None, (task.row.project_name, task.row.cwd, task.row.branch)))
        self._doubted = False
        self._body = ""
        self._slug = form.NO_SLUG

    def __call__(self, record: RolloutRecord) -> list[str]:
        self._body, self._slug = form.tidy(record.rollout_summary), self._clean_slug(record.rollout_slug)
        if not self._body:
            if self._doubted or self._former or not validate.is_rich(self._fresh):
                return []
            self._doubted = True
            return [
                "The answer was empty, but the person said a good deal or something that reads like a standing wish."
                " Look again; if there is truly nothing a later session could use, answer with two empty strings once"
                " more. (suspicious_empty)"
            ]
        return validate.reasons(validate.judge(self._body, self._case()))

    def accepted(self, record: RolloutRecord) -> Answer:
        """The answer the check let pass."""
        return Answer(self._body, self._slug, self.events, suspicious=self._doubted and not self._body)

    def last_resort(self) -> Answer | None:
        """After the last repair round: the provable lines, or the "nothing" that was said again."""
        if not self._body:
            return Answer(suspicious=self._doubted) if self._doubted else None
        saved = validate.salvage(self._body, self._case())
        return None if saved is None else Answer(saved[0], self._slug, self.events, dropped=saved[1])

    def _case(self) -> validate.Case:
        slug = self._slug
        return validate.Case(
            events=self.events,
            measure=lambda body: size(self._header, body, self.events, slug=slug),
            has_secret=lambda text: bool(self._secret.findings(text)),
            known=self._known,
        )

    def _clean_slug(self, text: str) -> str:
        return form.NO_SLUG if self._secret.findings(text) else form.slug_of(text)
