"""The consolidation agent: a model with three tools, a budget and a gate. It ends with a verdict, never with a file
somebody could see: the candidate stays in the staging area."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import prompts
from consolidate.gate import Case, Verdict, judge
from consolidate.tools import MAX_CALLS_PER_TURN, TOOLS, carry_out
from memory.errors import (
    BudgetExceeded,
    GateRejected,
    LoopDetected,
    TimeoutModelError,
    WorkspaceError,
)
from memory.llm.base import CallContext, ChatReply, Message, Tokens, ToolCall
from memory.llm.calls import ask_chat
from memory.model import DIFF_NAME, MAX_SUMMARY_BYTES, SUMMARY_NAME, Violation
from memory.progress import Step
from memory.runtime import Runtime
from memory.wording import counted
from memory.workspace import Staging

ELIDED = "[left out here to keep the conversation short: read the file again if you need it]"
TARGET_BYTES = 8_000
"""Size the agent is asked to aim at, so that a later line still finds room."""
MAX_TOLD = 12
"""Tool calls of one answer that the transcript names."""
WINDOW_SHARE = 0.7
"""Share of the model's window the conversation may fill before old tool results are left out."""


@dataclass(slots=True)
class Session:
    """One agent session: the conversation, what it cost and what it did.

    `transcript` holds tool names, paths and outcomes, no content: fit for logs and the dashboard.
    """

    messages: list[Message]
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    repairs: int = 0
    transcript: list[str] = field(default_factory=list)
    failing: tuple[str, int] = ("", 0)
    read: set[str] = field(default_factory=set)


async def work(
    runtime: Runtime,
    staging: Staging,
    *,
    first_message: str,
    must_read: frozenset[str],
    case: Callable[[bytes], Case],
    context: CallContext,
    tokens: Tokens,
    session: Session | None = None,
    ours: Callable[[], None] = lambda: None,
) -> tuple[str, Verdict]:
    """Lets the agent work until the gate accepts its candidate or a budget ends.

    `must_read` are the paths of new and changed inputs: an agent that looked at neither them nor the diff has not
    done its work, whatever it says [M4]. `ours` raises FencedError when the claim is gone: it is asked before every
    request, so that nothing is paid for that cannot be published, and a cleared folder is not taken for a fault of
    the agent.

    Returns the accepted text and the verdict. Raises GateRejected (violations of the last candidate),
    BudgetExceeded (`consolidate.max_requests`, or a ceiling of the ledger), TimeoutModelError (`batch_minutes`),
    LoopDetected, Cancelled, or what the model port raises. The confirmed summary is never touched here.
    """
    session = session if session is not None else Session([])
    session.messages += [Message("system", system_prompt()), Message("user", first_message)]
    deadline = runtime.clock.monotonic() + runtime.settings.consolidate.batch_minutes * 60
    window = await runtime.or_stop(runtime.consolidate_model.window())
    verdict: Verdict | None = None
    while True:
        ours()
        reply = await _turn(runtime, session, context, tokens, deadline, window, verdict)
        session.messages.append(Message("assistant", reply.text, reply.tool_calls))
        if reply.tool_calls:
            _carry_out_all(runtime, session, staging, reply.tool_calls)
            continue
        text = _candidate(staging)
        verdict = _with_unread(judge(case(text.encode("utf-8", "surrogatepass"))), session, must_read)
        if verdict.passed:
            session.transcript.append(f"request {session.requests}: gate passed")
            return text, verdict
        session.repairs += 1
        rules = ", ".join(sorted({v.rule for v in verdict.violations}))
        session.transcript.append(f"request {session.requests}: gate found {rules}")
        runtime.progress(
            Step("consolidate", f"gate found {counted(len(verdict.violations), 'violation')}, repair {session.repairs}")
        )
        session.messages.append(Message("user", _repair_message(verdict, text)))


async def _turn(
    runtime: Runtime,
    session: Session,
    context: CallContext,
    tokens: Tokens,
    deadline: float,
    window: int | None,
    verdict: Verdict | None,
) -> ChatReply:
    """One model call, with every budget checked before it [Z096-Z098]."""
    runtime.check_cancelled()
    limits = runtime.settings.consolidate
    if session.requests >= limits.max_requests:
        if verdict is not None:
            raise GateRejected(
                f"The candidate still breaks {counted(len(verdict.violations), 'rule')} after "
                f"{counted(session.requests, 'request')}.",
                violations=verdict.violations,
                hint="The confirmed summary stays; `slowwave status` lists the rules.",
            )
        raise BudgetExceeded(
            f"The consolidation used its {counted(limits.max_requests, 'request')} without finishing.",
            budget="consolidate.max_requests",
            hint="The confirmed summary stays as it was.",
        )
    left = deadline - runtime.clock.monotonic()
    if left <= 0:
        raise TimeoutModelError(
            f"The consolidation took longer than {limits.batch_minutes:g} minutes.",
            hint="Raise consolidate.batch_minutes or use a faster model.",
        )
    _shorten(session, tokens, window or runtime.settings.extract.fallback_window)
    runtime.progress(Step("consolidate", f"request {session.requests + 1}", session.requests, limits.max_requests))
    session.requests += 1
    reply = await runtime.or_stop(
        ask_chat(
            runtime.consolidate_model,
            session.messages,
            TOOLS,
            context=context,
            meter=runtime.meter,
            clock=runtime.clock,
            settings=runtime.settings,
            deadline_seconds=min(left, limits.request_minutes * 60),
            total_seconds=left,
            max_output_tokens=limits.max_output_tokens,
            tokens=tokens,
        ),
    )
    session.input_tokens += reply.usage.input_tokens
    session.output_tokens += reply.usage.output_tokens
    return reply


def _carry_out_all(runtime: Runtime, session: Session, staging: Staging, calls: tuple[ToolCall, ...]) -> None:
    told = []
    for place, call in enumerate(calls):
        if place >= MAX_CALLS_PER_TURN:
            session.messages.append(Message("tool", "Too many calls in one answer.", tool_call_id=call.id))
            continue
        result = carry_out(call, staging.files)
        session.messages.append(Message("tool", result.text, tool_call_id=call.id))
        # A name the model made up may hold anything; a path that was carried out is one of the staged files.
        name = call.name if any(tool.name == call.name for tool in TOOLS) else "unknown tool"
        if not result.ok:
            told.append(f"{name} refused")
            _break_loop(runtime, session, call)
            continue
        session.failing = ("", 0)
        path = str(json.loads(call.arguments)["path"])
        told.append(f"{name} {path}")
        if name == "read":
            session.read.add(path)
    more = f" and {len(told) - MAX_TOLD} more" if len(told) > MAX_TOLD else ""
    session.transcript.append(f"request {session.requests}: " + ", ".join(told[:MAX_TOLD]) + more)


def _break_loop(runtime: Runtime, session: Session, call: ToolCall) -> None:
    """The same failing call again and again is a loop, not work [X3]."""
    key = hashlib.sha256(f"{call.name}\0{call.arguments}".encode("utf-8", "replace")).hexdigest()
    count = session.failing[1] + 1 if session.failing[0] == key else 1
    session.failing = (key, count)
    limit = runtime.settings.consolidate.same_error_limit
    if count >= limit:
        raise LoopDetected(
            f"The consolidation agent repeated one failing tool call {counted(count, 'time')}.",
            hint="The confirmed summary stays; try another model (model.consolidate_name).",
        )


def _shorten(session: Session, tokens: Tokens, window: int) -> None:
    """Leaves out the oldest tool results once the conversation outgrows its share of the window."""
    limit = int(window * WINDOW_SHARE)
    sizes = [tokens.count(m.content) + sum(tokens.count(c.arguments) for c in m.tool_calls) for m in session.messages]
    total = sum(sizes)
    for place, message in enumerate(session.messages[:-1]):
        if total <= limit:
            return
        if message.role == "tool" and message.content != ELIDED and sizes[place] > 40:
            session.messages[place] = Message("tool", ELIDED, tool_call_id=message.tool_call_id)
            total -= sizes[place]


def _with_unread(verdict: Verdict, session: Session, must_read: frozenset[str]) -> Verdict:
    if DIFF_NAME in session.read or must_read <= session.read:
        return verdict
    missing = sorted(must_read - session.read)
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    message = (
        f"You have read neither {DIFF_NAME} nor what is new: {', '.join(missing[:5])}{more}. Read before you finish."
    )
    return replace(verdict, violations=(*verdict.violations, Violation("unread_input", message)))


def _candidate(staging: Staging) -> str:
    """What stands in the staged summary now; empty when the agent wrote none."""
    try:
        return staging.candidate()
    except (WorkspaceError, FileNotFoundError):
        return ""


def _repair_message(verdict: Verdict, text: str) -> str:
    return prompts.render(
        "consolidate_repair",
        summary_name=SUMMARY_NAME,
        size_bytes=len(text.encode("utf-8", "surrogatepass")),
        violations=verdict.violations[:60],
    )


def system_prompt() -> str:
    """The agent's standing instructions."""
    return prompts.render(
        "consolidate_system",
        summary_name=SUMMARY_NAME,
        diff_name=DIFF_NAME,
        max_bytes=MAX_SUMMARY_BYTES,
        target_bytes=TARGET_BYTES,
    )
