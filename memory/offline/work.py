"""What was done in a session: what failed and what then worked, which checks passed, which files mattered."""

from __future__ import annotations

from collections.abc import Iterable

from memory.offline.commands import changed_files, shown
from memory.offline.frames import frame
from memory.offline.proof import clean
from memory.offline.prose import clip
from memory.offline.session import Session, bullet
from memory.offline.tasks import confirmation
from memory.offline.trouble import Failure, failures, passed_checks

MAX_FAILURES = 6
MAX_LISTED = 4
CONFIRMED_BYTES = 160


def failed(session: Session) -> list[str]:
    """The failures that may help later, in order of time."""
    found = failures(session.runs)
    ranked = sorted(range(len(found)), key=lambda place: (-found[place].score, -place))[:MAX_FAILURES]
    return [_failure(found[place], session.code) for place in sorted(ranked)]


def _failure(failure: Failure, code: str) -> str:
    text = frame(code, "failed", command=failure.command, error=f"`{failure.error}`")
    if failure.cure is None:
        text += frame(code, "open")
    elif failure.cure_command and failure.cure_command != failure.command:
        text += frame(code, "then", command=failure.cure_command)
    else:
        text += frame(code, "later")
    events = [failure.step.call, failure.step.result]
    if failure.cure is not None:
        events += [failure.cure.call, failure.cure.result]
    return bullet(text, [f"e{event.number}" for event in events if event is not None])


def worked(session: Session) -> list[str]:
    """The checks that passed last, and what the person confirmed."""
    bullets = []
    for run in passed_checks(session.runs):
        name = shown(run.text, next((program.key for program in reversed(run.programs) if program.purpose), ""))
        if name and run.step.result is not None:
            text = frame(session.code, "passed", command=name)
            bullets.append(bullet(text, [f"e{run.step.call.number}", f"e{run.step.result.number}"]))
    for event in session.humans[1:]:
        quote = clip(clean(confirmation(session, event)), CONFIRMED_BYTES)
        if quote:
            bullets.append(bullet(frame(session.code, "confirmed", text=quote), [f"e{event.number}"]))
    return bullets


def reference(session: Session) -> list[str]:
    """The files that were changed and the commands that were used most."""
    files: dict[str, list[int]] = {}
    for step in session.steps:
        if step.ok is not False:
            for path in changed_files(step.call):
                files.setdefault(path, []).append(step.call.number)
    used: dict[str, list[int]] = {}
    for run in session.runs:
        keys = [program.key for program in run.programs if program.purpose not in {"", "commit", "push"}]
        name = shown(run.text, keys[-1]) if keys else ""
        if run.ok is not False and name and not name.endswith("…"):
            used.setdefault(name, []).append(run.step.call.number)
    shared = _shared_folder(files)
    short = {path: f"`{_short(path, shared)}`" for path in files}
    return [
        *_listing(session.code, "changed", {short[path]: files[path] for path in files}, least=1),
        *_listing(session.code, "used", used, least=2),
    ]


def _listing(code: str, name: str, table: dict[str, list[int]], *, least: int) -> list[str]:
    often = [item for item in table if len(table[item]) >= least]
    best = sorted(often, key=lambda item: (-len(table[item]), table[item][0]))[:MAX_LISTED]
    if not best:
        return []
    return [bullet(frame(code, name, items=", ".join(best)), [f"e{table[item][-1]}" for item in best])]


def _shared_folder(paths: Iterable[str]) -> int:
    """How many leading parts all absolute paths share, their names left out."""
    split = [path.split("/")[:-1] for path in paths if path.startswith(("/", "~"))]
    if not split:
        return 0
    shortest, longest = min(split), max(split)
    pairs = zip(shortest, longest, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(shortest), len(longest)))


def _short(path: str, shared: int) -> str:
    """A path from the folder all changed files share: at least its last two parts, at most its last four."""
    if not path.startswith(("/", "~")):
        return path
    parts = path.split("/")
    return "/".join(parts[max(min(shared, len(parts) - 2), len(parts) - 4) :])
