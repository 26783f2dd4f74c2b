"""What every host's reader offers, and the registry of the four of them.

An adapter is stateless: `peek` reads the head and the tail of a file, `read` streams the whole of it. Neither
raises over what stands in a file: damage is counted in the `ReadReport`. Both raise `UnreadableRollout` where the
file cannot be opened or its compression is broken from the start; `peek` raises it too where the head holds no
record of this host, so that another tool's logs are never taken for a session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Protocol, runtime_checkable

from memory.model import Header, Host, Transcript


@dataclass(frozen=True, slots=True)
class Peek:
    """What the head and the tail of a file tell; both are parsed only as far as needed.

    `last_event` is the time of the last complete record that carries one, else None. `user_chars` counts the code
    points of the first human text: 0 proves that the person said nothing only where `whole` says that the head
    covers the file. `fingerprint` is the sha256 hex of that text (see `rollouts.drafts.fingerprint`), "" where
    none was seen: a fork, a resumed copy and a grown copy have that of their origin, so equal ones are candidates,
    never proof. `open_turn` is true where the tail shows a turn that began and has not ended.
    """

    header: Header
    last_event: datetime | None = None
    user_chars: int = 0
    fingerprint: str = ""
    whole: bool = False
    open_turn: bool = False


@runtime_checkable
class Adapter(Protocol):
    """One host's reader."""

    @property
    def host(self) -> Host:
        """Which host this reads."""
        ...

    def default_roots(self, host_environment: Mapping[str, str]) -> list[Path]:
        """The host's own session folders, existing or not, from its variables (`HOME`, `CODEX_HOME`, ...)."""
        ...

    def matches(self, path: Path) -> bool:
        """Whether the name and place of a file are those of a session of this host. Opens nothing."""
        ...

    def peek(self, path: Path) -> Peek:
        """Head and tail only. Raises UnreadableRollout."""
        ...

    def read(self, path: Path, *, limit: int | None = None) -> Transcript:
        """The whole rollout up to its last complete line, or to the last one that ends at or before byte `limit`.

        Offsets and `limit` are bytes of the uncompressed stream. Event numbers and texts never change when the
        file grows; tiers may (a turn is rolled back, a branch abandoned, a closing text followed by another).
        Raises UnreadableRollout where the file cannot be opened.
        """
        ...


class _Registry(Mapping[Host, Adapter]):
    """Imports a reader when it is asked for."""

    _places: Mapping[Host, str] = {
        Host.CODEX: "rollouts.codex:CodexAdapter",
        Host.CLAUDE: "rollouts.claude:ClaudeAdapter",
        Host.PI: "rollouts.pi:PiAdapter",
        Host.GENERIC: "rollouts.generic:GenericAdapter",
    }

    def __init__(self) -> None:
        self._made: dict[Host, Adapter] = {}

    def __getitem__(self, host: Host) -> Adapter:
        made = self._made.get(host)
        if made is None:
            module, _, name = self._places[host].partition(":")
            made = getattr(import_module(module), name)()
            assert isinstance(made, Adapter)
            self._made[host] = made
        return made

    def __iter__(self) -> Iterator[Host]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


ADAPTERS: Mapping[Host, Adapter] = _Registry()
"""Every host's reader, by host, in the order they are tried."""
