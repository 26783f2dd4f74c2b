"""What a session was about: the requests in the person's words, the assistant's closing report, title and slug."""

from __future__ import annotations

import re

from memory.documents import PrintedEvent
from memory.model import Tier
from memory.offline import outcome
from memory.offline.commands import changed_files
from memory.offline.frames import frame
from memory.offline.language import weight
from memory.offline.proof import clean, is_fit
from memory.offline.prose import answers, clip, first_line, lead_trimmed, plain, title_of_document
from memory.offline.session import Session, bullet
from memory.offline.trouble import gives_orders

MAX_REQUESTS = 5
TITLE_BYTES = 140
FIRST_BYTES = 420
NEXT_BYTES = 220
REPORT_BYTES = 320
CONFIRMING_WEIGHT = 160.0
"""A message up to this long that praises is a verdict, not a request."""
TITLE_WEIGHT, REQUEST_WEIGHT = 16.0, 28.0
"""Less than this is an answer ("yes, go on"), not a title or a request."""
MAX_WORK = 12
_SMALL = frozenset(
    "a add all an and any are as at be but by can could do don for from has have help how i if in is it "
    "its just let me must my need no not now of on one only our please see should so some that the there "
    "this to up us use want was we what when why with would you".split()
)


def tasks(session: Session, quoted: str) -> list[str]:
    """The first request, then those that made the most work, in order of time; at last the report. `quoted` holds
    what the record says elsewhere: a statement that does not stand there was overruled and is not repeated here."""
    requests = [(event, _request(session, event, quoted)) for event in session.humans]
    requests = [
        (event, text)
        for place, (event, text) in enumerate(requests)
        if weight(text) >= (REQUEST_WEIGHT if place else TITLE_WEIGHT)
    ]
    if not requests:
        return report(session)
    (first, first_text), *rest = requests
    ranked = sorted(rest, key=lambda item: (-_importance(session, *item), item[0].number))
    chosen = sorted(ranked[: MAX_REQUESTS - 1], key=lambda item: item[0].number)
    bullets = [bullet(clip(first_text, FIRST_BYTES), [f"e{first.number}"])]
    bullets += [bullet(clip(text, NEXT_BYTES), [f"e{event.number}"]) for event, text in chosen]
    return bullets + report(session)


def _importance(session: Session, event: PrintedEvent, text: str) -> float:
    return min(MAX_WORK, session.work_after(event)) + min(weight(text), 160.0) / 40


def _request(session: Session, event: PrintedEvent, quoted: str) -> str:
    """A message without what was overruled later; "" where it asks for nothing that is not said elsewhere."""
    prose = session.prose[event.number]
    if answers(event.text) or confirmation(session, event):
        return ""
    said = [clean(statement.text) for statement in session.said[event.number]]
    parts, new = [], not said
    for sentence in prose.sentences:
        text = clean(lead_trimmed(sentence.text))
        stated = [line for line in said if line in text or text in line]
        if stated and not any(line in quoted for line in stated):
            continue
        new = new or (not stated and weight(text) >= 12)
        parts.append(text)
    if not new:
        return ""
    if prose.document and (heading := title_of_document(event.text)):
        parts.append(heading)
    return clean(" ".join(parts))


def confirmation(session: Session, event: PrintedEvent) -> str:
    """What a short message confirms, in its words; "" where it does not."""
    if weight(event.text) > CONFIRMING_WEIGHT or outcome.verdict(event.text) is not outcome.Verdict.GOOD:
        return ""
    return outcome.praise(session.prose[event.number])


def report(session: Session) -> list[str]:
    """What the assistant reported at the end: the first sentences of its closing text, marked as its report."""
    closing = next((event for event in reversed(session.events) if event.tier is Tier.FINAL), None)
    if closing is None:
        return []
    asked_later = any(event.number > closing.number and weight(event.text) >= 24 for event in session.humans)
    text = "" if asked_later else clip(clean(_opening(closing.text)), REPORT_BYTES)
    if weight(text) < 24 or text.endswith(("?", "？")) or gives_orders(text):
        return []
    return [bullet(frame(session.code, "reported", text=text), [f"e{closing.number}"])]


def _opening(text: str) -> str:
    """The first lines of a report on one line: list items joined by semicolons, code and tables left out."""
    joined, fenced = "", False
    for raw in text.split("\n"):
        line = plain(raw)
        fenced = fenced != raw.lstrip().startswith(("```", "~~~"))
        if fenced or raw.lstrip().startswith(("```", "|", "<", "---", "===")) or weight(line) < 6:
            continue
        item = re.match(r"^\s*(?:[-*•]|\d+[.)])\s", raw) is not None
        separator = "" if not joined else "; " if item and not joined.endswith((":", "：")) else " "
        joined += separator + re.sub(r"^\d+[.)]\s+", "", line)
        if len(joined.encode()) > 2 * REPORT_BYTES:
            break
    return joined


def title(session: Session, quoted: str) -> str:
    """The first thing the person asked for, in their words; not what they later took back (see `tasks`)."""
    best = ""
    for event in session.humans:
        for text in _titles(session, event, quoted):
            if not is_fit(text):
                continue
            if weight(text) >= TITLE_WEIGHT:
                return clip(text, TITLE_BYTES).lstrip("# ")
            best = text if weight(text) > weight(best) else best
    closing = next((event.text for event in session.events if event.tier is Tier.FINAL), "")
    reported = clean(_opening(closing))
    if weight(best) < 12 and weight(reported) >= TITLE_WEIGHT and not gives_orders(reported):
        best = reported
    return clip(best, TITLE_BYTES).lstrip("# ") or "Session"


def _titles(session: Session, event: PrintedEvent, quoted: str) -> list[str]:
    prose = session.prose[event.number]
    if answers(event.text):
        return []
    gone = [line for line in (clean(said.text) for said in session.said[event.number]) if line not in quoted]
    texts = [lead_trimmed(s.text) for s in prose.sentences if not re.match(r"^/\S+$", s.text)]
    if prose.document:
        texts = [title_of_document(event.text), *texts, first_line(event.text)]
    return [text for text in map(clean, texts) if not any(text in line or line in text for line in gone)]


def slug(session: Session, named: str) -> str:
    """Two to five Latin words: of the title, else of the files changed and the programs run."""
    words = [word for word in _latin(named) if word not in _SMALL]
    for step in session.steps:
        if len(words) >= 2:
            break
        for path in changed_files(step.call)[:1]:
            words += [word for word in _latin(path.rpartition("/")[2]) if word not in words]
    for run in session.runs[:20]:
        if len(words) >= 2:
            break
        words += [word for word in _latin(run.programs[0].key) if word not in words]
    if len(words) < 2:
        words += ["session", "notes"]
    return "-".join(dict.fromkeys(words[:5]))[:60].strip("-")


def _latin(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"[a-z][a-z0-9]+", text.lower())))
