"""Tables of the Claude Code format, and what a transcript says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from memory.model import RolloutKind
from rollouts.drafts import moment, word
from rollouts.lines import Record

SILENT = frozenset(
    {
        "agent-setting",
        "atis-latch",
        "attribution-snapshot",
        "bridge-session",
        "content-replacement",
        "data-flow-incomplete",
        "data-flow-records",
        "file-history-delta",
        "file-history-snapshot",
        "frame-link",
        "host-row",
        "hybrid-organization",
        "init",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "queue-operation",
        "result",
        "saved_hook_context",
        "session-owner",
        "started",
        "tag",
        "tools-used",
        "worktree-state",
    }
)
SILENT_BLOCKS = frozenset({"thinking", "redacted_thinking", "fallback", "container_upload"})
SYSTEM_TEXTS = {
    "local_command": "command",
    "away_summary": "compaction",
    "compact_boundary": "compaction",
    "voice_call_talk": "notification",
}
AGENT_TOOLS = frozenset({"Task", "Agent"})
QUESTION_TOOLS = frozenset({"AskUserQuestion"})


@dataclass(slots=True)
class Meta:
    """What a transcript says about itself."""

    session: str | None = None
    agent: str | None = None
    cwd: str | None = None
    relocated: str | None = None
    branch: str | None = None
    version: str | None = None
    started: datetime | None = None
    entrypoint: str | None = None
    session_kind: str | None = None
    forked_from: str | None = None
    titles: dict[str, str] | None = None
    suppressed: bool = False
    main_chain: bool = False
    sidechain: bool = False
    typed: bool = False

    def take(self, record: Record) -> None:
        """The first value of each field holds."""
        self.session = self.session or word(record.get("sessionId"))
        self.agent = self.agent or word(record.get("agentId"))
        self.cwd = self.cwd or word(record.get("cwd"))
        self.branch = self.branch or word(record.get("gitBranch"))
        self.version = self.version or word(record.get("version"))
        self.started = self.started or moment(record.get("timestamp"))
        self.entrypoint = self.entrypoint or word(record.get("entrypoint"))
        self.session_kind = self.session_kind or word(record.get("sessionKind"))

    def title(self) -> str | None:
        """A name the person gave before one that a model made."""
        titles = self.titles or {}
        return next(
            (titles[key] for key in ("custom-title", "ai-title", "agent-name", "summary") if key in titles), None
        )

    def kind(self) -> RolloutKind:
        """See the module `rollouts.claude`."""
        if self.suppressed:
            return RolloutKind.DIAGNOSTIC
        if (self.session_kind or "").startswith("daemon"):
            return RolloutKind.AUXILIARY
        if self.sidechain and not self.main_chain:
            return RolloutKind.SUBAGENT
        headless = (self.entrypoint or "").startswith("sdk-") and not self.typed
        return RolloutKind.EXEC if headless else RolloutKind.INTERACTIVE
