"""From a person's message to the sentences they wrote themselves: pasted logs, code, quotes and templates set aside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memory.offline.cues import shared

_FENCE = re.compile(r"^\s*(```|~~~)")
_TAG_OPEN = re.compile(r"^\s*<([A-Za-z][\w-]*)[^>]*>\s*$")
_LOG = shared("log")
_LIST = re.compile(r"^\s*(?:[-*•・+]|\d{1,2}[.)、]|[a-zA-Z][.)]|\[[ xX]\])\s+")
_LABELLED = re.compile(r"^\s*(?:\*\*)?[\w /-]{2,32}(?:\*\*)?\s*[:：]\s+\S")
_HEADING = re.compile(r"^\s{0,3}#{1,6} ")
_END = re.compile(r"[。！？；]+[”」』）)\"]*|[.!?…]+[”\"')\]*_]*(?=\s|$)|;(?=\s)|[.!?](?=[\u3040-\u30ff\u4e00-\u9fff])")
_SHORT = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|z\.\s?b|bzw|ca|d\.h|p\. ?ex|mr|dr|no|nr|fig|\d|[A-Za-z])\.$", re.I
)
_ASKED = re.compile(r"\(asked \"([^\"\n]*)\"\)[ \t]*")
"""How a reader of a host's files marks the question in front of an answer the person picked."""
_RAW_DATA = re.compile(r"\s*(?:\[?\{\"|[\w ]*(?:Error|Exception)\b[^{]*\{\")")
"""Data or an error that holds data: what follows it without a blank line was pasted with it."""
_PLACEHOLDER = re.compile(r"\[(?:image|Image #\d+|file|audio|document)\]")
_CODE_SPAN = re.compile(r"`[^`\n]+`")
_QUOTED = re.compile(
    r"“[^”\n]{2,}”|\"[^\"\n]{2,}\"|「[^」\n]{2,}」|『[^』\n]{2,}』|«[^»\n]{2,}»|(?<![\w])'[^'\n]{6,}'(?!\w)"
)
_SEVERAL = re.compile(r"\s|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{3}")

_PUNCTUATION = frozenset(".,;:!?'\"`()-/，。！？、；：“”‘’（）「」…")

MAX_LINE = 4_000
"""Code points of a line that still may be prose; a longer one was pasted."""
DOCUMENT_CHARS = 1_200
BRIEF_LINES = 5


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, verbatim. `masked` has the same length: quotations and code spans are filled with `¤`."""

    text: str
    masked: str
    listed: bool = False
    paragraph: int = 0


@dataclass(frozen=True, slots=True)
class Prose:
    """A message as its author wrote it. `document`: a pasted text or template, whose rules are not the person's own
    words to us; `brief`: a task sheet, whose rules hold for its task."""

    sentences: tuple[Sentence, ...]
    document: bool = False
    brief: bool = False


def read(text: str) -> Prose:
    """Splits a message. Linear in its length."""
    own, document = _own_part(_PLACEHOLDER.sub("", _ASKED.sub("", text)))
    lines = list(_prose_lines(own))
    listed = sum(1 for line, _ in lines if _LIST.match(line) or _LABELLED.match(line))
    sentences = tuple(sentence for line, paragraph in lines for sentence in _sentences(line, paragraph))
    return Prose(sentences, document, not document and listed >= BRIEF_LINES and len(own) >= 300)


def answers(text: str) -> list[tuple[str, str]]:
    """Questions a host put to the person and what they picked: (question, answer)."""
    places = list(_ASKED.finditer(text))
    if not places:
        return []
    ends = [match.start() for match in places[1:]] + [len(text)]
    return [(match[1], text[match.end() : end].strip()) for match, end in zip(places, ends, strict=True)]


def title_of_document(text: str) -> str:
    """The first heading of a pasted document, without its marks."""
    for line in text.split("\n"):
        if _HEADING.match(line):
            return line.strip().lstrip("#").strip()
    return ""


def first_line(text: str) -> str:
    """The first line of prose of any length in a message, wherever it stands."""
    return next((line.strip() for line, _ in _prose_lines(text) if sum(map(str.isalpha, line)) >= 20), "")


def _own_part(text: str) -> tuple[str, bool]:
    """What the person typed of a message that wraps it in a template or ends in a pasted document."""
    text = _without_middle(text)
    headings = [place for place, line in enumerate(text.split("\n")) if _HEADING.match(line)]
    if len(text) < DOCUMENT_CHARS or len(headings) < 2:
        return text, False
    lines = text.split("\n")
    before = "\n".join(lines[: headings[0]]).strip()
    if before:
        return before, True
    return _first_fence(lines), True


def _without_middle(text: str) -> str:
    """A long message without what was pasted into it: what stands before its first and after its last block of lines
    that are no prose."""
    if len(text) < DOCUMENT_CHARS:
        return text
    lines = text.split("\n")
    odd = [
        bool(line.strip()) and not _HEADING.match(line) and not _FENCE.match(line) and not _is_prose(line)
        for line in lines
    ]
    blocks = [place for place in range(len(lines) - 2) if all(odd[place : place + 3])]
    if not blocks:
        return text
    return "\n".join([*lines[: blocks[0]], "", *lines[blocks[-1] + 3 :]])


def _first_fence(lines: list[str]) -> str:
    """A slash command's template keeps the person's words in the fence under its first heading."""
    inside: list[str] | None = None
    for line in lines[:400]:
        if _FENCE.match(line):
            if inside is not None:
                return "\n".join(inside)
            inside = []
        elif inside is not None:
            inside.append(line)
    return ""


def _prose_lines(text: str) -> Iterator[tuple[str, int]]:
    fenced, tag, paragraph, pasted = False, "", 0, False
    for line in text.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        elif tag:
            tag = "" if f"</{tag}>" in line else tag
        elif not fenced and (opened := _TAG_OPEN.match(line)):
            tag = opened[1]
        elif not line.strip():
            paragraph, pasted = paragraph + 1, False
        elif not fenced:
            pasted = pasted or _RAW_DATA.match(line) is not None
            if not pasted and _is_prose(line):
                yield line, paragraph


def _is_prose(line: str) -> bool:
    if len(line) > MAX_LINE or line.lstrip().startswith(">") or _HEADING.match(line) or _LOG.match(line):
        return False
    if line.count('\\"') + line.count('":') + line.count('","') + line.count("\\n") >= 2:
        return False
    letters = sum(2 if char > "\u2e80" else 1 for char in line if char.isalpha())
    marks = sum(
        1 if not char.isdigit() else 0.5
        for char in line
        if not char.isalpha() and not char.isspace() and char not in _PUNCTUATION
    )
    return letters >= 1.3 * marks and letters > 0


def _sentences(line: str, paragraph: int) -> Iterator[Sentence]:
    listed = bool(_LIST.match(line))
    line = _LIST.sub("", line, count=1).strip(" \t│┃║")
    masked = _mask(line)
    start = 0
    for match in _END.finditer(masked):
        if _SHORT.search(masked[max(0, match.end() - 8) : match.end()]) and match.end() < len(masked):
            continue
        yield from _sentence(line, masked, start, match.end(), listed, paragraph)
        start = match.end()
    yield from _sentence(line, masked, start, len(line), listed, paragraph)


def _sentence(line: str, masked: str, start: int, end: int, listed: bool, paragraph: int) -> Iterator[Sentence]:
    text = line[start:end]
    left, stripped = len(text) - len(text.lstrip()), text.strip()
    if stripped.strip(" .!?…。！？;；*_-"):
        yield Sentence(stripped, masked[start + left : start + left + len(stripped)], listed, paragraph)


def _mask(line: str) -> str:
    masked = _CODE_SPAN.sub(lambda m: "¤" * len(m[0]), line)
    return _QUOTED.sub(lambda m: "¤" * len(m[0]) if _SEVERAL.search(m[0]) else m[0], masked)


# -- wording ------------------------------------------------------------------------------------------

_FILLER = shared("filler")


_SLASH = re.compile(r"^/[a-z][\w:-]*\s+(?=\S)", re.IGNORECASE)


def lead_trimmed(text: str) -> str:
    """The sentence without the small talk it opens with; still a verbatim part of it."""
    text = _SLASH.sub("", text)
    for _ in range(3):
        shorter = _FILLER.sub("", text, count=1)
        if shorter == text or len(shorter) < 8:
            return text
        text = shorter
    return text


def plain(text: str) -> str:
    """A line of Markdown without its marks for headings, lists and emphasis."""
    return re.sub(r"\s+", " ", re.sub(r"\*\*|__|^#+\s*|^[-*]\s+", "", text.strip())).strip()


def clip(text: str, limit: int) -> str:
    """At most `limit` bytes in UTF-8, cut at a sentence, clause or word end with a visible `…`; spans stay whole."""
    text = re.sub(r"\s+", " ", text).strip()
    if len(text.encode()) <= limit:
        return text
    head = text.encode()[: max(4, limit - 4)].decode("utf-8", "ignore")
    if head.count("`") % 2:
        head = head[: head.rindex("`")]
    marks = [match.end() for match in _END.finditer(head)]
    if marks and marks[-1] >= len(head) * 0.5:
        return head[: marks[-1]].rstrip() + " …"
    clauses = [match.end() for match in re.finditer(r"[，、：；]|[,:;](?=\s)", head)]
    if clauses and clauses[-1] >= len(head) * 0.6:
        return head[: clauses[-1]].rstrip(" ,，、:：;；") + " …"
    return _at_word_end(head, text) + " …"


def _at_word_end(head: str, text: str) -> str:
    """Drops a word that the cut went through: half an identifier would be an invented one."""
    following = text[len(head) : len(head) + 1]
    if following and re.match(r"[\w./:@#%+-]", following, re.ASCII):
        head = re.sub(r"[\w./:@#%+=&?~-]+$", "", head, flags=re.ASCII)
    return head.rstrip(" ,，、:：;；(（[")
