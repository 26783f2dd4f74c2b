"""Tables of the Codex format, and what a rollout says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory.model import RolloutKind
from rollouts.drafts import mapped, moment, word

SILENT_TYPES = frozenset(
    {"turn_context", "token_usage_record", "security_risk_score", "inter_agent_communication_metadata"}
    | {"retained_context", "realtime_item"}
)
SILENT_ITEMS = frozenset({"reasoning", "ghost_snapshot", "compaction", "compaction_summary", "context_compaction"})
SILENT_EVENTS = frozenset(
    {
        "token_count",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "thread_settings_applied",
        "thread_goal_updated",
        "context_compacted",
        "entered_review_mode",
        "exited_review_mode",
        "web_search_end",
        "image_generation_end",
        "sub_agent_activity",
        "guardian_assessment",
        "error",
        "warning",
        "stream_error",
        "background_event",
        "turn_diff",
        "plan_update",
        "collab_agent_interaction_end",
        "collab_agent_spawn_end",
        "collab_waiting_end",
        "collab_close_end",
        "collab_resume_end",
        "view_image_tool_call",
        "dynamic_tool_call_request",
        "dynamic_tool_call_response",
        "undo_completed",
        "undo_started",
        "account/rateLimits/updated",
        "exec_command_begin",
        "patch_apply_begin",
        "mcp_tool_call_begin",
        "web_search_begin",
        "exec_approval_request",
        "apply_patch_approval_request",
        "session_configured",
        "shutdown_complete",
        "deprecation_notice",
        "hook_started",
        "hook_completed",
        "model_reroute",
    }
)
SILENT_UI_ITEMS = frozenset(
    {
        "HookPrompt",
        "Reasoning",
        "DynamicToolCall",
        "CollabAgentToolCall",
        "SubAgentActivity",
        "WebSearch",
        "ImageView",
        "Extension",
        "ImageGeneration",
        "EnteredReviewMode",
        "ExitedReviewMode",
        "ContextCompaction",
        "Sleep",
    }
)
# A record begins `{"timestamp":"2026-11-02T09:15:01.500Z","type":"`: what follows from byte 48 on tells its kinds.
TYPE_AT = 48
SKIPPED = tuple(
    f'{start}"'.encode()
    for start in (
        'event_msg","payload":{"type":"token_count',
        'event_msg","payload":{"type":"agent_reasoning',
        'response_item","payload":{"type":"reasoning',
        'response_item","payload":{"type":"ghost_snapshot',
    )
)
TURN_CONTEXT = b'turn_context","payload":{'
TWIN_REACH = 64
"""Events between a message and its twin at most; later equal words are said anew."""


@dataclass(slots=True)
class Meta:
    """What a rollout says about itself: its first `session_meta`, or the header of the bare format."""

    id: str | None = None
    cwd: str | None = None
    branch: str | None = None
    remote: str | None = None
    started: datetime | None = None
    version: str | None = None
    parent: str | None = None
    forked_from: str | None = None
    title: str | None = None
    source: object = None
    thread_source: str | None = None
    originator: str | None = None
    memory_mode: str | None = None

    def take(self, payload: dict[str, Any]) -> None:
        """Fields of the record itself."""
        self.id = word(payload.get("id")) or word(payload.get("session_id"))
        self.cwd = word(payload.get("cwd")) or self.cwd
        self.started = moment(payload.get("timestamp")) or self.started
        self.version = word(payload.get("cli_version"))
        self.source = payload.get("source")
        self.thread_source = word(payload.get("thread_source"))
        self.originator = word(payload.get("originator"))
        self.forked_from = word(payload.get("forked_from_id"))
        spawn = mapped(mapped(mapped(self.source).get("subagent")).get("thread_spawn"))
        self.parent = word(payload.get("parent_thread_id")) or word(spawn.get("parent_thread_id"))
        git = mapped(payload.get("git"))
        self.branch = word(git.get("branch"))
        self.remote = word(git.get("repository_url"))
        self.take_memory_mode(payload)

    def take_memory_mode(self, payload: dict[str, Any]) -> None:
        """The last one of this thread wins."""
        if payload.get("id") == self.id:
            self.memory_mode = word(payload.get("memory_mode")) or self.memory_mode

    def kind(self) -> RolloutKind:
        """By source; see the module `rollouts.codex`."""
        source = self.source
        if self.memory_mode == "disabled":
            return RolloutKind.DIAGNOSTIC
        if type(source) is dict:
            subagent = source.get("subagent")
            if subagent is not None:
                spawned = subagent == "review" or (type(subagent) is dict and "thread_spawn" in subagent)
                return RolloutKind.SUBAGENT if spawned else RolloutKind.AUXILIARY
            if "internal" in source:
                return RolloutKind.AUXILIARY
        if self.thread_source == "subagent":
            return RolloutKind.SUBAGENT
        if self.thread_source not in {None, "user"}:
            return RolloutKind.AUXILIARY
        return RolloutKind.EXEC if source == "exec" or self.originator == "codex_exec" else RolloutKind.INTERACTIVE
