"""What a hook left that gave a block when its time was up: it held no lock, so it could not write the session's state.

The mark lies beside the state until it grows old; a state knows the time of the one it has taken in. Standard library
only, and imported where there is a mark.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FORM = {"at": float, "digest": str, "tokens": int, "citations": list, "mode": str, "parts": list}


def mark(block: dict[str, Any], at: float, mode: str, parts: list[str]) -> dict[str, Any]:
    """What a block was given, when, and the mode and parts that a first send froze with it."""
    of_block = {name: block[name] for name in ("digest", "tokens", "citations")}
    return {"at": float(at), **of_block, "mode": mode, "parts": parts}


def is_new(late: dict[str, Any], state: dict[str, Any] | None) -> bool:
    """Whether a mark could have been written here and is not taken in yet."""
    whole = all(isinstance(late.get(name), kind) for name, kind in _FORM.items())
    return whole and (state is None or state.get("late") != late["at"])


def take_in(state: dict[str, Any], late: dict[str, Any]) -> dict[str, Any]:
    """A session's state after that block. What came later from a hook that had its time stands."""
    state["late"] = late["at"]
    if late["at"] >= state.get("at", 0) or not state["standing"]:
        state["standing"] = late["digest"]
    if not state["mode"]:
        state["mode"], state["parts"] = late["mode"], late["parts"]
    state["usage"]["blocks"] += 1
    state["usage"]["tokens"] += late["tokens"]
    return state
