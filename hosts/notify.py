"""`slowwave-notify [--then PROGRAM ARGUMENT...] JSON`: Codex's `notify`, with the user's own program behind ours.

Codex starts it after each turn, with one JSON text as the last argument. Ours leaves a wake-up for the service, nothing
else, within its own deadline; then this process becomes the user's program, with the arguments it would have had. It
does so whatever happened before: their notification is theirs.

Standard library only. No text of the turn is kept.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

CHAIN = "--then"
"""What follows this word is the user's own program."""
DEADLINE_SECONDS = 0.25
MAX_TEXT = 4_096


def main(arguments: Sequence[str] | None = None) -> None:
    """Console script. Never returns; without a program behind it the process ends with exit code 0."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    theirs = words[words.index(CHAIN) + 1 :] if CHAIN in words else []
    try:
        _arm(DEADLINE_SECONDS)
        wake(words[-1] if words else "")
    except BaseException:  # noqa: BLE001 - whatever happened, the user's program is next
        pass
    finally:
        _arm(0)
        if len(theirs) > 1:
            try:
                os.execvp(theirs[0], theirs)
            except OSError:
                os._exit(0)  # Codex says nothing of a program it cannot start either
        os._exit(0)


def wake(text: str) -> None:
    """Leaves a wake-up where a session of a person has ended a turn and long memory is on. May raise anything."""
    from memory import switches

    if switches.is_own_session():
        return
    found = switches.from_process()
    if found.mode != "long" or not os.path.isdir(found.home):
        return
    import json

    said = json.loads(text)
    if not isinstance(said, dict) or said.get("type") != "agent-turn-complete":
        return
    session, cwd = said.get("thread-id"), said.get("cwd")
    if not isinstance(session, str) or not session or len(session) > MAX_TEXT:
        return
    cwd = cwd if isinstance(cwd, str) and len(cwd) <= MAX_TEXT else ""
    real, home = os.path.realpath(cwd or "/"), os.path.realpath(found.home)
    if real == home or real.startswith(home + os.sep):
        return  # the memory worker of Codex itself, or one of ours
    from recall.snapshot import Files

    values = {"host": "codex", "session": session, "transcript": "", "cwd": cwd, "time": time.time()}
    Files(found.home).wake("codex", session, {**values, "models": found.models})


def _arm(seconds: float) -> None:
    """Raises in so many seconds; 0 disarms."""
    import signal

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
