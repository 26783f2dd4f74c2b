"""What a host gives the policy, and all it gives: model resolution, history reading, persistence [Z019]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol


class ModelResolution(Protocol):
    """Which models the service would use now: stage -> name, empty for the provider's default."""

    def resolve(self) -> Mapping[str, str]: ...


class History(Protocol):
    """The host's own record of a conversation, only ever looked into."""

    def holds(self, transcript: str, text: str) -> bool:
        """Whether the record holds a text; False where there is no record or it cannot be read."""
        ...


class Persistence(Protocol):
    """Where a session's snapshot and the spool are kept (`recall.snapshot.Files`). Methods may raise OSError."""

    def load(self, host: str, session: str) -> dict[str, Any] | None: ...

    def save(self, host: str, session: str, values: dict[str, Any]) -> None: ...

    def lock(self, host: str, session: str) -> Callable[[], None] | None: ...

    def load_late(self, host: str, session: str) -> dict[str, Any] | None:
        """What a hook whose time was up gave this session last; None where there was none."""
        ...

    def save_late(self, host: str, session: str, values: dict[str, Any]) -> None: ...

    def load_block(self, name: str) -> dict[str, Any] | None:
        """A block kept for every session of the generation; None where there is none."""
        ...

    def save_block(self, name: str, values: dict[str, Any]) -> None: ...

    def wake(self, host: str, session: str, values: dict[str, Any]) -> None: ...

    def used(self, host: str, session: str, citations: dict[str, float]) -> None: ...
