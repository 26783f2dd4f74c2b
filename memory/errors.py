"""One tree of errors.

Every message says what happened, to which file or setting, and what to do. Messages never carry
evidence, prompts, answers or secrets: they reach logs, the database and Prefect in clear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from datetime import datetime

    from memory.model import Violation


class SlowwaveError(Exception):
    """Root of the tree.

    `code` is a stable snake_case word for logs, JSON and the database; `hint` tells the user what to do.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(SlowwaveError):
    """The caller asked for something that does not exist or cannot be combined."""

    code = "usage"
    exit_code = 2


class SettingsError(SlowwaveError):
    """A setting is unknown, malformed or out of range; the message names it and the file."""

    code = "settings"
    exit_code = 2


class Cancelled(SlowwaveError):
    """The user or the service stopped the work. Never a failure: the attempt is given back [Z083]."""

    code = "cancelled"
    exit_code = 130


class PromptError(SlowwaveError):
    """A prompt template is unknown, or was given a variable too many or too few."""

    code = "prompt"


# -- state and workspace -----------------------------------------------------------------------------


class StateError(SlowwaveError):
    """The state database cannot be used."""

    code = "state"


class StateVersionError(StateError):
    """The state is not version 2. It is left untouched, never converted [Z012 Z013 Z119]."""

    code = "state_version"


class StateCorruptError(StateError):
    """The database file is damaged."""

    code = "state_corrupt"


class StateBusyError(StateError):
    """Another process held the write lock for longer than the busy timeout."""

    code = "state_busy"


class StateLostError(StateError):
    """The server of the state went away or cannot be reached; it may be back in a moment. Nobody's failure."""

    code = "state_lost"


class FencedError(StateError):
    """A write came from a worker whose lease or generation is no longer the current one."""

    code = "fenced"


class WorkspaceError(SlowwaveError):
    """The workspace on disk cannot be used."""

    code = "workspace"


class PathRefused(WorkspaceError):
    """A path leaves the controlled files, or is a link, device, FIFO, directory or hard-linked file."""

    code = "path_refused"


class InputsChangedError(WorkspaceError):
    """An input changed while a consolidation was running [Z099]; nothing is published."""

    code = "inputs_changed"


class StorageError(WorkspaceError):
    """The disk refused a read or write (full, read-only, denied, I/O error)."""

    code = "storage"


# -- rollouts -----------------------------------------------------------------------------------------


class RolloutError(SlowwaveError):
    """A rollout cannot be used."""

    code = "rollout"


class UnreadableRollout(RolloutError):
    """The file is not a session this host writes, or cannot be opened."""

    code = "unreadable"


class UnknownReference(UsageError):
    """No rollout, citation, version or line answers to what the user named."""

    code = "unknown_reference"


# -- model calls --------------------------------------------------------------------------------------


class ModelError(SlowwaveError):
    """A model call did not give a usable answer. `status` is the HTTP status where there was one."""

    code = "model"

    def __init__(self, message: str, *, hint: str = "", status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class TransientModelError(ModelError):
    """Worth trying again: 408, 409, 429, 5xx, time-out, reset. `retry_after` is in seconds."""

    code = "transient"

    def __init__(
        self, message: str, *, hint: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint, status=status)
        self.retry_after = retry_after


class TimeoutModelError(TransientModelError):
    """Our own deadline around the call ran out."""

    code = "timeout"


class QuotaModelError(ModelError):
    """The provider says the quota or credit is used up: the batch pauses, no attempt is spent."""

    code = "quota"

    def __init__(
        self, message: str, *, hint: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint, status=status)
        self.retry_after = retry_after


class OverflowModelError(ModelError):
    """The input is larger than the model's window: shrink and ask again at once."""

    code = "overflow"


class InvalidAnswerError(ModelError):
    """The answer breaks the schema or the local checks. `reasons` may be sent back to the model.

    `kind` is one of `parse`, `schema`, `truncated`, `refusal`, `empty`, `suspicious_empty`, `checks`.
    Reasons name rules, never quote more than a short redacted extract.
    """

    code = "invalid"

    def __init__(self, message: str, *, reasons: Sequence[str], kind: str = "checks", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reasons = tuple(reasons)
        self.kind = kind


class PermanentModelError(ModelError):
    """Trying again cannot help (authentication, unknown model, bad request): the batch stops."""

    code = "permanent"


class BudgetExceeded(SlowwaveError):
    """A ceiling would be passed by the next call; the call was not made. `budget` names the setting.

    `used` of `limit` (in `of`: requests, tokens or money) was used or reserved. `frees` is when the ceiling opens
    again by itself, None where only a new run or a change of the setting opens it. `project` is the one it holds for,
    empty for all. `alone` says that this call is larger than the whole ceiling: waiting cannot help it.
    """

    code = "budget"

    def __init__(
        self,
        message: str,
        *,
        budget: str,
        hint: str = "",
        used: float = 0.0,
        limit: float = 0.0,
        of: str = "",
        frees: datetime | None = None,
        project: str = "",
        alone: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.budget = budget
        self.used = used
        self.limit = limit
        self.of = of
        self.frees = frees
        self.project = project
        self.alone = alone


# -- publishing ---------------------------------------------------------------------------------------


class GateRejected(SlowwaveError):
    """The candidate summary breaks the gate's rules; the confirmed summary stays as it is."""

    code = "gate_rejected"

    def __init__(self, message: str, *, violations: Sequence[Violation], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.violations = tuple(violations)


class LoopDetected(SlowwaveError):
    """The consolidation agent repeated the same failing step too often."""

    code = "loop"
