"""What failed and what then worked: tool errors, each with the success that followed it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory import support
from memory.model import EventKind
from memory.offline.commands import Command, Step, command_text, commands, shown
from memory.offline.cues import shared

WITHIN = 60
"""Shell calls after a failure in which a success still counts as its answer."""
MAX_LINES = 400
MAX_ERROR = 160

_TELLING = tuple(shared(f"telling_{name}") for name in ("missing", "setup", "named", "located", "worded", "general"))
"""How well a line says what went wrong, best first: something is missing, the environment refuses, an error has a name,
a place, a wording, or there is just the word."""
_NOISE = shared("noise")
_FROM_PROBE = shared("from_probe")
_SHELL_PREFIX = re.compile(r"^(?:/bin/)?(?:ba|z|da)?sh: (?:line \d+: |\d+: )?")
_SETUP = shared("setup")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ORDERING = re.compile(
    r"\bsystem\s*:|\bcurl\b[^\n]*\|\s*(?:sh|bash)|ignore (?:all|previous|any)|</?\w+>", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A command that failed, why as far as its output says, and the command that later did the job (or None).

    `score` tells how much it may help later: 3 where the environment is at fault and another command was the answer.
    """

    step: Step
    command: str
    error: str
    cure: Step | None
    cure_command: str
    score: int


@dataclass(frozen=True, slots=True)
class Run:
    step: Step
    text: str
    programs: tuple[Command, ...]
    ok: bool | None


def runs(found: list[Step]) -> list[Run]:
    """The shell calls that ran something worth naming."""
    result = []
    for step in found:
        text = command_text(step.call)
        programs = commands(text) if text else ()
        if programs:
            result.append(Run(step, text, programs, step.ok))
    return result


def failures(found: list[Run]) -> list[Failure]:
    """One failure for each program, the most telling one, newest last. Linear: each run looks a bounded way ahead."""
    best: dict[str, Failure] = {}
    last_seen: dict[str, int] = {}
    for place, run in enumerate(found):
        if run.ok is not False or run.step.result is None:
            continue
        error = telling_line(run.step.result.text)
        name = shown(run.text, _main(run).key)
        if not name or not error:
            continue
        cure = _cure(found, place)
        score = _score(run, error, cure)
        failure = Failure(run.step, name, error, cure.step if cure else None, _shown_cure(cure, run), score)
        key = _main(run).key
        if key not in best or score > best[key].score or (score == best[key].score and not failure.cure):
            best[key] = failure
            last_seen[key] = place
    return [best[key] for key in sorted(best, key=lambda key: last_seen[key])]


def _main(run: Run) -> Command:
    """The program a compound command is about: its last one with a purpose, else its last."""
    return next((program for program in reversed(run.programs) if program.purpose), run.programs[-1])


def _shown_cure(cure: Run | None, failed: Run) -> str:
    if cure is None:
        return ""
    main = _main(failed)
    alike = [p.key for p in cure.programs if p.key == main.key] or [
        p.key for p in cure.programs if p.purpose == main.purpose
    ]
    return shown(cure.text, alike[-1] if alike else "")


def _cure(found: list[Run], place: int) -> Run | None:
    failed = found[place]
    main = _main(failed)
    for run in found[place + 1 : place + 1 + WITHIN]:
        if run.ok is False or (run.ok is None and run.step.result is None):
            continue
        alike = any(program.key == main.key for program in run.programs) and (
            bool(main.purpose) or _similar(run, failed)
        )
        for_it = main.purpose and any(program.purpose == main.purpose for program in run.programs)
        if alike or for_it:
            return run
    return None


def _similar(left: Run, right: Run) -> bool:
    """Commands without a known purpose answer each other only where they share most of their words."""
    mine, theirs = set(left.text.split()), set(right.text.split())
    return len(mine & theirs) >= 0.5 * min(len(mine), len(theirs))


def _score(run: Run, error: str, cure: Run | None) -> int:
    other = cure is not None and _plain(cure.text) != _plain(run.text)
    return 1 + (1 if _SETUP.search(error) else 0) + (1 if other else 0)


def _plain(text: str) -> str:
    return re.sub(r"\s*(?:2>&1)?\s*\|\s*(?:tail|head|grep)\b.*$", "", re.sub(r"\s+", " ", text)).strip()


def telling_line(output: str) -> str:
    """The line of an output that says what went wrong, in a form fit for backticks; "" where none does.

    A line that gives orders is passed over: output is never advice [M61 X38].
    """
    best, best_score = "", 0
    for line in output.split("\n", MAX_LINES)[:MAX_LINES]:
        if len(line) > 2000:
            continue
        plain = _SHELL_PREFIX.sub("", _ANSI.sub("", line).replace("`", "").strip())
        if len(plain) < 8 or _NOISE.match(plain) or plain.endswith(("{", ";", "(", "=>")) or _FROM_PROBE.match(plain):
            continue
        score = next((len(_TELLING) - place for place, found in enumerate(_TELLING) if found.search(plain)), 0)
        if score > best_score and not gives_orders(plain):
            best, best_score = plain, score
    return _fit(best)


def is_setup_error(text: str) -> bool:
    """Whether an error is about the environment rather than the work: it will meet the next session too."""
    return _SETUP.search(text) is not None


def gives_orders(text: str) -> bool:
    """Whether a text tells its reader what to do."""
    return support.is_instruction(text) or support.has_role_marker(text) or _ORDERING.search(text) is not None


def _fit(line: str) -> str:
    line = re.sub(r"\s+", " ", line)
    if "[redacted" in line.lower():
        return ""
    if len(line) <= MAX_ERROR:
        return line
    head = line[:MAX_ERROR]
    sentence = max(head.rfind(". "), head.rfind("; "), head.rfind(", "))
    return head[: sentence if sentence > 60 else head.rfind(" ")].rstrip(" ,;:.") if " " in head else ""


def passed_checks(found: list[Run]) -> list[Run]:
    """The last success for each kind of check after which nothing of that kind failed, oldest first."""
    last: dict[str, Run] = {}
    for run in found:
        for program in run.programs:
            if program.purpose in {"test", "lint", "types", "build"}:
                last[program.purpose] = run
    unique: dict[int, Run] = {}
    for run in last.values():
        if run.ok is not False and run.step.result is not None and run.step.result.kind is EventKind.TOOL_RESULT:
            unique[run.step.call.number] = run
    return [unique[number] for number in sorted(unique)]
