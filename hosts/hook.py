"""`slowwave-hook [codex|claude|pi]`: one program for every event of every host.

JSON on standard input, the host's format on standard output, always exit code 0: whatever goes wrong here, the person's
prompt goes through. It ends within its own deadline, opens no socket, starts no process, waits for no service, and
leaves at most a snapshot, a spool file and one line in `hook.log` (no text of anybody's in it).

Hosts call it by absolute path with `-I`, so that a project's own modules cannot take the place of ours. The import
closure is the standard library, and little of it; a test lists it.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any

    from memory.switches import Switches
    from recall.policy import Call

DEADLINE_SECONDS = 0.25
FALLBACK_SECONDS = 0.2
"""A few milliseconds of work; this much where ten of us start at once on a machine that is busy already."""
COMMIT_SECONDS = 0.2
"""For keeping what is kept, once the host has its answer: a hanging disk holds nobody up."""
DRAIN_SECONDS = 2.0
IDLE_SECONDS = 0.02
UNREAD_SECONDS = 0.25
"""Longer where the host is known to be writing still: a busy one may take its time with the next piece."""
KEPT_BYTES = (8 << 20) + 1
"""More is no payload to be parsed, and is not waited for unless its end is needed."""
KEPT_END = 65_536
MAX_TRANSCRIPT_BYTES = 64 << 20
LOG_NAME = "hook.log"
LOG_BYTES = 262_144
LOG_LINE = 300


SOURCE_SIGNS = (b"rollout_summaries/", b"ad_hoc/notes/", b"memory_recall")
"""One of these stands in every payload that is about a source."""


class DeadlineError(Exception):
    """The hook's own time is up."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Console script. Never returns and never fails: the process ends at once, with exit code 0."""
    try:
        run(list(sys.argv[1:] if arguments is None else arguments))
    except BaseException:  # noqa: BLE001 - a hook that fails must not be noticed by anybody but its log
        pass
    finally:
        os._exit(0)


def run(arguments: list[str]) -> None:
    """Reads the payload, answers, keeps what is to be kept, logs."""
    began = time.monotonic()
    from memory import switches

    if switches.is_own_session():
        _drain(began)
        return
    _arm(DEADLINE_SECONDS)
    work = Work(arguments, began)
    try:
        work.go()
    except DeadlineError:
        work.outcome = "deadline"
        work.fall_back()
    except Exception as error:  # noqa: BLE001 - as above; the log names the kind, never the text
        work.outcome = f"failed {type(error).__name__}"
    _arm(0)
    _log(work)
    _drain(began, UNREAD_SECONDS if work.unread else IDLE_SECONDS)


class Work:
    """One event: what is known of it so far, for the fall-back and the log."""

    __slots__ = ("began", "call", "event", "home", "host", "outcome", "sent", "store", "unread")

    def __init__(self, arguments: list[str], began: float) -> None:
        self.began = began
        self.host = arguments[0] if arguments else ""
        self.event = ""
        self.home = ""
        self.call: Call | None = None
        self.store: Any = None
        self.outcome = "nothing"
        self.sent = 0
        self.unread = False

    def go(self) -> None:
        """The whole story of an event; every return is one that leaves nothing behind."""
        from memory import switches

        raw = _read_stdin()
        self.unread = large = len(raw) >= KEPT_BYTES
        self.home = switches.process_home()
        if not raw.strip() or not self.home or not os.path.isdir(self.home):
            return
        if _is_tool(raw) and not any(sign in raw for sign in SOURCE_SIGNS):
            return  # as nearly every tool run: not about memory
        from hosts import payloads

        payload = payloads.beginning(raw) if large else payloads.parse(raw)
        if large and not payloads.NEEDED.issubset(payload or ()):
            payload = {**payloads.ending(_read_end(raw)), **(payload or {})}
            self.unread = False
        if not payload:
            self.outcome = "malformed"
            return
        self.host = payloads.host_of(self.host, payload)
        self.event = str(payload.get("hook_event_name") or "")
        self.call = call = payloads.call_of(self.host, payload)
        if call is None or _is_inside(call.cwd, self.home):
            return
        if call.kind == "tool":
            from recall.reads import sources_read

            call.reads = sources_read(self.home, *payloads.tool_of(payload))
            if not call.reads:
                return
        self.answer(call)

    def answer(self, call: Call) -> None:
        """Under the session's lock: the policy's answer goes out, then what it keeps is kept."""
        from recall.snapshot import Files

        self.store = Files(self.home)
        release = self._lock(call)
        if release is None:
            self.outcome = "busy"
            self.fall_back()
            return
        try:
            answer = _policy(self.store).handle(call)
            self.outcome = answer.outcome
            self._send(answer.text)
            _arm(COMMIT_SECONDS)
            try:
                answer.commit()
            except OSError as error:
                self.outcome = f"{answer.outcome}, not kept ({error.errno})"
        finally:
            release()

    def fall_back(self) -> None:
        """The last block as it was built for this folder, where it still holds and is not there yet; else nothing.
        What was given leaves a mark for the next hook that has its time."""
        if self.call is None or self.sent:
            return
        _arm(FALLBACK_SECONDS)
        try:
            from recall.snapshot import Files

            answer = _policy(self.store or Files(self.home)).cached(self.call)
            self._send(answer.text)
            _arm(COMMIT_SECONDS)
            answer.commit()
        except Exception:  # noqa: BLE001 - nothing is the second-best answer
            return

    def _lock(self, call: Call) -> Callable[[], None] | None:
        try:
            return self.store.lock(call.host, call.session)  # type: ignore[no-any-return]
        except OSError:
            return lambda: None  # a disk that takes no lock file still has memory to read

    def _send(self, text: str) -> None:
        if not text:
            return
        from hosts import payloads

        _arm(0)  # half an answer is worse than a late one
        data = payloads.answer(self.event, text)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
        except OSError:
            self.outcome = "no reader"
            return
        self.sent = len(text)


class Models:
    """Model resolution: the names in the service's settings."""

    def __init__(self) -> None:
        self.switches: Switches | None = None

    def resolve(self) -> dict[str, str]:
        return self.switches.models if self.switches is not None else {}


class Transcripts:
    """History reading: whether a host's session file holds a text. Nothing of it is kept."""

    def holds(self, transcript: str, text: str) -> bool:
        if not transcript or not text:
            return False
        import stat

        needle = text.encode()
        try:
            descriptor = os.open(transcript, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return False
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return False
            tail, left = b"", MAX_TRANSCRIPT_BYTES
            while left > 0 and (chunk := os.read(descriptor, 1 << 20)):
                if needle in tail + chunk:
                    return True
                tail, left = chunk[-len(needle) :], left - len(chunk)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False


def _policy(store: Any) -> Any:
    from memory import switches
    from recall.policy import MemoryPolicy

    models = Models()

    def settings(known: tuple[list[int] | None, dict[str, dict[str, object]]] | None) -> Switches:
        models.switches = switches.from_process(known)
        return models.switches

    return MemoryPolicy(settings, models=models, history=Transcripts(), store=store, now=time.time())


# -- the process ---------------------------------------------------------------------------------------


def _arm(seconds: float) -> None:
    """Raises DeadlineError in so many seconds; 0 disarms."""
    import signal

    def ring(number: int, frame: FrameType | None) -> None:
        raise DeadlineError

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _read_stdin() -> bytes:
    """All there is; of more than is parsed, the beginning."""
    chunks: list[bytes] = []
    kept = 0
    while kept < KEPT_BYTES and (chunk := _read()):
        chunks.append(chunk)
        kept += len(chunk)
    return b"".join(chunks)


def _read_end(begun: bytes) -> bytes:
    """The last bytes of a payload that is too large, as soon as they are there; the deadline is not suspended."""
    end = begun[-KEPT_END:]
    while chunk := _read():
        end = chunk if len(chunk) >= KEPT_END else end[-KEPT_END:] + chunk
    return end


def _read() -> bytes:
    try:
        return os.read(0, 1 << 20)
    except OSError:
        return b""


def _drain(began: float, idle: float = IDLE_SECONDS) -> None:
    """Takes what the host is still writing, so that it does not meet a closed pipe; waits for nothing."""
    import select

    while time.monotonic() < began + DRAIN_SECONDS:
        try:
            ready, _, _ = select.select([0], [], [], idle)
            if not ready or not os.read(0, 1 << 20):
                return
        except (OSError, ValueError):
            return


def _is_tool(raw: bytes) -> bool:
    return b'"PostToolUse"' in raw[:4_096] or b'"tool_result"' in raw[:4_096]


def _is_inside(cwd: str, home: str) -> bool:
    """A session in our own data folder is one of ours, whatever started it."""
    if not os.path.isabs(cwd) or "\0" in cwd:
        return False
    real, base = os.path.realpath(cwd), os.path.realpath(home)
    return real == base or real.startswith(base + os.sep)


def _word(text: str) -> str:
    """A host's text as one short word of a line."""
    return "-".join(text[:40].split()) or "-"


def _log(work: Work) -> None:
    """One line: time, host, event, the session's beginning, outcome, characters sent, milliseconds."""
    from memory import switches

    if not work.home or (work.call is None and work.outcome == "nothing"):
        return
    path = switches.variable("SLOWWAVE_HOOK_LOG") or os.path.join(work.home, LOG_NAME)
    session = work.call.session[:13] if work.call is not None else "-"
    took = (time.monotonic() - work.began) * 1000
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    named = [_word(text) for text in (work.host, work.event, session)]
    words = f"{stamp} {' '.join(named)} {work.outcome} {work.sent} {took:.0f}"
    line = "".join(char if char.isprintable() else "?" for char in words)[:LOG_LINE] + "\n"
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            os.write(descriptor, line.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
        if size > LOG_BYTES:
            os.replace(path, f"{path}.1")
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    main()
