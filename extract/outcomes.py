"""How the extraction of one rollout ends: a closed union. `code` is the word that status, JSON and logs use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, ClassVar, assert_never

from memory.clock import iso, minutes, parse_iso
from memory.model import Outcome, Reason, RolloutId
from memory.wording import counted


@dataclass(frozen=True, slots=True)
class Kept:
    """A summary was stored. `dropped` bullets could not be proven and were left out; `shrinks` counts how often the
    evidence was halved to fit; `grown` tells that a former summary was carried on."""

    code: ClassVar[str] = "kept"
    rollout: RolloutId
    outcome: Outcome
    bullets: int
    bytes: int
    shrinks: int = 0
    dropped: int = 0
    grown: bool = False
    coverage: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NothingKept:
    """A success of its own: nothing worth keeping, or nothing to add to the former summary (`former`).

    `suspicious` tells that the person had said a good deal and the model said "nothing" twice [M19]. `asked` is
    False where there was no evidence to ask about, and no model call.
    """

    code: ClassVar[str] = "nothing_kept"
    rollout: RolloutId
    former: bool = False
    suspicious: bool = False
    asked: bool = True
    external: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """Not taken: the claim was refused (`running`, `backoff`, `exhausted`, `up_to_date`, `forgotten`, `generation`)
    or the claim was lost to somebody else meanwhile (`fenced`)."""

    code: ClassVar[str] = "skipped"
    rollout: RolloutId
    reason: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """`budget` or `quota`: the batch pauses, no attempt was spent. `retry_after` is in seconds.

    `project` is the one a ceiling holds for; empty: it holds for all, and nothing more is begun.
    """

    code: ClassVar[str] = "deferred"
    rollout: RolloutId
    reason: str
    message: str
    retry_after: float | None = None
    project: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt was spent. `error` is the error's class (`transient`, `timeout`, `overflow`, `invalid`, ...)."""

    code: ClassVar[str] = "failed"
    rollout: RolloutId
    error: str
    message: str
    attempt: int
    retry_at: datetime | None


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The last attempt at this boundary failed: not tried again until the session goes on [Z082]."""

    code: ClassVar[str] = "exhausted"
    rollout: RolloutId
    error: str
    message: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """What no retry can cure (settings, key, disk) stopped the batch; no attempt was spent."""

    code: ClassVar[str] = "stopped"
    rollout: RolloutId
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The user or the service stopped it; the attempt was given back [Z083]."""

    code: ClassVar[str] = "cancelled"
    rollout: RolloutId


ExtractOutcome = Kept | NothingKept | Skipped | Deferred | Failed | Exhausted | Stopped | Cancelled


def sentence(outcome: ExtractOutcome) -> str:
    """One line for people, without content."""
    match outcome:
        case Kept():
            extra = [f"{counted(outcome.dropped, 'unproven line')} left out"] if outcome.dropped else []
            extra += [f"evidence halved {counted(outcome.shrinks, 'time')}"] if outcome.shrinks else []
            text = (
                f"kept, {outcome.outcome.value}, {counted(outcome.bullets, 'line')}, {counted(outcome.bytes, 'byte')}"
            )
            return ", ".join([text, *extra])
        case NothingKept(external=True):
            return "left out: it used web or MCP content (rollouts.skip_external)"
        case NothingKept(former=True):
            return "nothing to add to its former summary"
        case NothingKept(asked=False):
            return "nothing in it that is evidence"
        case NothingKept():
            doubt = " (asked twice: the person had said a good deal)" if outcome.suspicious else ""
            return f"nothing worth keeping{doubt}"
        case Skipped():
            return f"skipped: {outcome.reason}" + (f" until {minutes(outcome.until)}" if outcome.until else "")
        case Deferred():
            return f"deferred ({outcome.reason}): {outcome.message}"
        case Failed():
            until = f"; again from {minutes(outcome.retry_at)}" if outcome.retry_at else ""
            return f"failed ({outcome.error}), attempt {outcome.attempt}: {outcome.message}{until}"
        case Exhausted():
            often = counted(outcome.attempts, "time")
            return f"failed {often} ({outcome.error}), waits until it goes on: {outcome.message}"
        case Stopped():
            return f"stopped ({outcome.error}): {outcome.message}"
        case Cancelled():
            return "stopped before it finished; the attempt was given back"
        case _:
            assert_never(outcome)


@dataclass(frozen=True, slots=True)
class ExtractReport:
    """What a batch did, one outcome for each chosen rollout in the order of choice.

    `waiting` counts eligible rollouts beyond the batch, `reasons` every other one looked at by its reason, `off`
    says why nothing was looked at, `next_check` when time alone makes the next rollout eligible.
    """

    outcomes: tuple[ExtractOutcome, ...] = ()
    waiting: int = 0
    reasons: Mapping[Reason, int] = field(default_factory=dict)
    unknown: tuple[RolloutId, ...] = ()
    next_check: datetime | None = None
    off: str = ""
    notice: str = ""

    @property
    def done(self) -> int:
        """Rollouts that came to a good end."""
        return sum(isinstance(outcome, (Kept, NothingKept)) for outcome in self.outcomes)

    @property
    def kept(self) -> int:
        return sum(isinstance(outcome, Kept) for outcome in self.outcomes)

    @property
    def failed(self) -> int:
        """Rollouts that failed, for good or for now, and those a broken setting stopped."""
        return sum(isinstance(outcome, (Failed, Exhausted, Stopped)) for outcome in self.outcomes)

    @property
    def deferred(self) -> int:
        return sum(isinstance(outcome, Deferred) for outcome in self.outcomes)

    @property
    def cancelled(self) -> int:
        return sum(isinstance(outcome, Cancelled) for outcome in self.outcomes)

    def counts(self) -> dict[str, int]:
        """Outcomes by code; failures by code and class (`failed:timeout`) [X10]."""
        found: dict[str, int] = {}
        for outcome in self.outcomes:
            key = outcome.code
            if isinstance(outcome, (Failed, Exhausted, Stopped)):
                key = f"{outcome.code}:{outcome.error}"
            found[key] = found.get(key, 0) + 1
        return found

    def lines(self) -> list[str]:
        """For people: one line for each rollout, then what was left."""
        if self.off:
            return [self.off]
        found = [f"{outcome.rollout}: {sentence(outcome)}" for outcome in self.outcomes]
        found += [f"{name}: no such session" for name in self.unknown]
        if self.waiting:
            found.append(f"{self.waiting} more eligible, for the next runs (extract.batch)")
        if not found:
            until = f"; next at {minutes(self.next_check)}" if self.next_check else ""
            found.append(f"no eligible session{until}")
        return found

    def detail(self) -> dict[str, Any]:
        """For JSON and the row of the run: ids, counts and times, no content."""
        return {
            "outcomes": [_plain(outcome) for outcome in self.outcomes],
            "counts": self.counts(),
            "waiting": self.waiting,
            "reasons": {reason.value: count for reason, count in self.reasons.items()},
            "next_check": iso(self.next_check),
            "off": self.off,
            "unknown": [str(rollout) for rollout in self.unknown],
        }

    @classmethod
    def from_detail(cls, plain: Mapping[str, Any]) -> ExtractReport:
        """The report whose `detail` this is, as a run's row keeps it."""
        return cls(
            outcomes=tuple(_revived(one) for one in plain["outcomes"]),
            waiting=plain["waiting"],
            reasons={Reason(name): count for name, count in plain["reasons"].items()},
            unknown=tuple(RolloutId.parse(name) for name in plain.get("unknown", ())),
            next_check=parse_iso(plain["next_check"]),
            off=plain["off"],
        )


_KINDS: dict[str, type[ExtractOutcome]] = {
    kind.code: kind for kind in (Kept, NothingKept, Skipped, Deferred, Failed, Exhausted, Stopped, Cancelled)
}
_TIMES = ("until", "retry_at")


def _revived(plain: Mapping[str, Any]) -> ExtractOutcome:
    values = {name: value for name, value in plain.items() if name != "code"}
    values |= {name: parse_iso(values[name]) for name in _TIMES if name in values}
    values["rollout"] = RolloutId.parse(values["rollout"])
    if "outcome" in values:
        values["outcome"] = Outcome(values["outcome"])
    return _KINDS[plain["code"]](**values)


def _plain(outcome: ExtractOutcome) -> dict[str, Any]:
    found: dict[str, Any] = {"code": outcome.code}
    for item in fields(outcome):
        value = getattr(outcome, item.name)
        found[item.name] = iso(value) if isinstance(value, datetime) else value
    return found | {"rollout": str(outcome.rollout)}
