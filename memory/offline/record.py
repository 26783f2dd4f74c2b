"""Stage 1: from the evidence of one session to its record, all of it quoted, every line with its anchors."""

from __future__ import annotations

from dataclasses import dataclass

from memory.documents import PrintedEvent, anchors, sections, without_marks
from memory.model import SUMMARY_SECTIONS, Outcome, Tier
from memory.offline import outcome, tasks, work
from memory.offline.book import Book, Entry, Mark
from memory.offline.choices import choices
from memory.offline.classify import Kind, Statement
from memory.offline.commands import changed_files
from memory.offline.frames import frame, leads
from memory.offline.language import weight
from memory.offline.proof import clean, is_fit, stands
from memory.offline.session import Session, bullet, read
from memory.offline.trouble import gives_orders

TASK, PREFERENCES, DECISIONS, FAILED, WORKED, REFERENCE = SUMMARY_SECTIONS
LIMITS = {TASK: 6, PREFERENCES: 16, DECISIONS: 10, FAILED: 6, WORKED: 6, REFERENCE: 6}
MAX_BODY_BYTES = 7_600
"""Leaves room for the header of the file (9,000 bytes in all)."""
SMALL_TALK_WEIGHT = 90.0
"""A session in which a person said less than this, and that changed little, leaves nothing to keep."""
REQUEST_WEIGHT = 34.0
"""Enough words for a request that was carried out by changing a file."""
_SECTION_OF = {
    Kind.PREFERENCE: PREFERENCES,
    Kind.PROFILE: PREFERENCES,
    Kind.DECISION: DECISIONS,
    Kind.CORRECTION: DECISIONS,
    Kind.FACT: REFERENCE,
}
_STATED = (PREFERENCES, DECISIONS, REFERENCE)


@dataclass(frozen=True, slots=True)
class Record:
    """`body` and `slug` as the schema wants them; both empty: nothing worth keeping."""

    body: str = ""
    slug: str = ""


def record(evidence: str, former: str = "", *, keep: bool = False) -> Record:
    """The record of a session. Deterministic and linear in the evidence.

    `former` is the record of what came before this evidence; `keep` asks for a record even where little was said.
    """
    session = read(evidence)
    if not session.humans:
        return Record()
    old = sections(former) if former else {}
    bullets = _stated(session, old)
    quoted = " ".join(text for name in _STATED for text in bullets[name])
    bullets[TASK] = _requests(old, tasks.tasks(session, quoted))
    bullets[FAILED] = [*old.get(FAILED, ()), *work.failed(session)]
    bullets[WORKED] = [*old.get(WORKED, ()), *work.worked(session)]
    bullets[REFERENCE] += work.reference(session)
    kept = {name: _limited(name, _provable(bullets[name], session, former)) for name in SUMMARY_SECTIONS}
    if not any(kept.values()) or not (keep or _worth_keeping(session, kept, known=bool(former))):
        return Record()
    title = _former_title(former) or tasks.title(session, quoted)
    ending = outcome.judge(session.events, session.runs).outcome
    return Record(_print(title, ending, kept, MAX_BODY_BYTES), tasks.slug(session, title))


def mended(body: str, slug: str, refused: frozenset[int], *, shorter: bool) -> Record:
    """A record without the lines (1-based) that were refused, and a fifth shorter where it was too long."""
    head, *lines = body.split("\n")
    ending = next((line.removeprefix("Outcome: ") for line in lines if line.startswith("Outcome: ")), "")
    left = [line for number, line in enumerate(lines, start=2) if number not in refused]
    found = sections("\n".join(left))
    kept = {name: found.get(name, []) for name in SUMMARY_SECTIONS}
    if not any(kept.values()) or ending not in set(Outcome):
        return Record()
    limit = int(len(body.encode()) * 0.8) if shorter else MAX_BODY_BYTES
    return Record(_print(head.removeprefix("# "), Outcome(ending), kept, limit), slug)


# -- what the person stated -----------------------------------------------------------------------------


def _stated(session: Session, old: dict[str, list[str]]) -> dict[str, list[str]]:
    """Preferences, decisions and facts: the former record's, then this evidence's; the later word wins [M2 X9]."""
    book = Book(_clearer)
    for name in _STATED:
        for line in old.get(name, ()):
            book.add(Entry(without_marks(line), name, 1, tuple(Mark(f"e{number}") for number in anchors(line))))
    new = [_entry(statement, session.code) for said in session.said.values() for statement in said]
    for entry in sorted([*new, *choices(session.events, DECISIONS)], key=_last_anchor):
        book.add(entry)
    standing = sorted(book.all(), key=_first_anchor)
    found: dict[str, list[str]] = {name: [] for name in SUMMARY_SECTIONS}
    for name in _STATED:
        mine = [entry for entry in standing if entry.section == name]
        best = sorted(mine, key=lambda entry: (entry.weight, _last_anchor(entry)), reverse=True)[: LIMITS[name]]
        kept = {entry.text for entry in best}
        found[name] = [bullet(e.text, [mark.name for mark in e.marks]) for e in mine if e.text in kept]
    return found


def _entry(statement: Statement, code: str) -> Entry:
    text, section = clean(statement.text), _SECTION_OF[statement.kind]
    if statement.kind is Kind.CORRECTION:
        section = PREFERENCES if statement.strength > 1 else DECISIONS
        text = frame(code, "corrected", text=text)
    return Entry(text, section, statement.strength, (Mark(f"e{statement.number}"),))


def _clearer(old: Entry, new: Entry) -> Entry:
    """Of two wordings of one thing: the stronger, else the later, unless it says much less."""
    if new.weight != old.weight:
        return new if new.weight > old.weight else old
    return old if weight(new.text) < 0.6 * weight(old.text) else new


def _first_anchor(entry: Entry) -> int:
    return min((int(mark.name[1:]) for mark in entry.marks), default=0)


def _last_anchor(entry: Entry) -> int:
    return max((int(mark.name[1:]) for mark in entry.marks), default=0)


# -- putting it together ----------------------------------------------------------------------------------


def _requests(old: dict[str, list[str]], new: list[str]) -> list[str]:
    """The former requests and the new ones; of several closing reports the last."""
    reported = leads("reported")
    former = old.get(TASK, [])
    if any(line.startswith(reported) for line in new):
        former = [line for line in former if not line.startswith(reported)]
    return [*former, *new]


def _former_title(former: str) -> str:
    first = former.strip().split("\n", 1)[0]
    return first[2:].strip() if first.startswith("# ") else ""


def _provable(bullets: list[str], session: Session, former: str) -> list[str]:
    """Only lines that can be proven from the events they cite, each text once with its latest anchors; a former line
    was proven when it was written."""
    found: dict[str, str] = {}
    for line in bullets:
        text = without_marks(line)
        if not is_fit(text):
            continue
        events = [session.by_number[number] for number in anchors(line) if number in session.by_number]
        if line in former or (events and _carried(text, events)):
            found[text] = line
    return list(found.values())


def _carried(text: str, events: list[PrintedEvent]) -> bool:
    """What the line names stands in its events; tool output alone never carries an instruction [M61 X38]."""
    if all(event.tier is Tier.TOOL for event in events) and gives_orders(text):
        return False
    return stands(text, [f"{event.text}\n{event.tool or ''}" for event in events])


def _limited(name: str, lines: list[str]) -> list[str]:
    """The newest lines, and the first request with them."""
    limit = LIMITS[name]
    if len(lines) <= limit:
        return lines
    return [lines[0], *lines[-limit + 1 :]] if name == TASK else lines[-limit:]


def _worth_keeping(session: Session, kept: dict[str, list[str]], *, known: bool) -> bool:
    """Statements are; else work that changed something, or a conversation of some length."""
    said = [statement for found in session.said.values() for statement in found]
    if any(statement.kind is not Kind.CORRECTION or weight(statement.text) > 30 for statement in said):
        return True
    if not known and (kept[FAILED] or kept[DECISIONS]):
        return True
    words = sum(weight(event.text) for event in session.humans)
    if known:
        return words >= SMALL_TALK_WEIGHT or any(changed_files(step.call) for step in session.steps)
    changed = sum(1 for step in session.steps if changed_files(step.call) and step.ok is not False)
    published = any(program.purpose in {"commit", "push"} for run in session.runs for program in run.programs)
    enough = words >= 3 * SMALL_TALK_WEIGHT or (changed >= 1 and words >= REQUEST_WEIGHT)
    return enough or changed >= 3 or published


def _print(title: str, ending: Outcome, kept: dict[str, list[str]], limit: int) -> str:
    """The body; where it is too long, the least useful lines go, whole."""
    order = [WORKED, REFERENCE, TASK, FAILED, DECISIONS, PREFERENCES]
    kept = {name: list(lines) for name, lines in kept.items()}
    while True:
        lines = [f"# {title}", f"Outcome: {ending.value}"]
        for name in SUMMARY_SECTIONS:
            if kept[name]:
                lines += ["", name, *(f"- {line}" for line in kept[name])]
        body = "\n".join(lines)
        if len(body.encode()) <= limit or sum(map(len, kept.values())) <= 1:
            return body
        # The longest section gives a line; preferences count four lines shorter than they are.
        longest = max(
            (name for name in order if kept[name]),
            key=lambda name: (len(kept[name]) - 4 * (name == PREFERENCES), -order.index(name)),
        )
        del kept[longest][-1 if longest == TASK else 0]
