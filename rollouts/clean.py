"""Text of an event made fit to print: no terminal escapes, no hidden characters, no media, a visible cut [C019 C066].

What is taken out leaves a mark wherever it could have meant something: an escape sequence other than a colour becomes
`␛`, a control character its picture (`␇`), encoded data its length. Colours, NUL, marks of writing direction and
invisible characters go without one: they mean nothing, or are there to hide something.
"""

from __future__ import annotations

import re

import re2  # type: ignore[import-untyped]

CUT = "[cut: {:,} characters left out]"
"""Stands on a line of its own between head and tail of a cut text."""
_READER_CUT = re.compile(r"\S{0,512}\n(\[… [\d,]+ or more characters left out …\])\n\S{0,512}")
"""The reader's own cut: what touches it may be half of a word, and half of a secret."""

_CONTROLS = bytes(sorted({*range(32), 127} - {9, 10}))
_ALL_BUT_CONTROLS = bytes(set(range(256)) - set(_CONTROLS))
_COLOUR = re.compile(r"(?:\x1b\[|\x9b)[0-9;:]{0,64}m")
_ESCAPE = re.compile(
    r"\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[PX^_][^\x1b\n]{0,4096}(?:\x1b\\)?"  # device strings
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]?"  # cursor, erase
    r"|\x1b[ -/]{0,4}[0-~]?"
)
_PICTURES = {code: chr(0x2400 + code) for code in range(1, 32) if code not in {9, 10}} | {127: "␡", 0: None}
_BREAKS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e0fff\x80-\x84\x86-\x9f]"
)
_UNUSUAL = re2.compile(f"{_HIDDEN.pattern[:-1]}\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]".encode())
"""What sends a text that is not ASCII the slow way: hidden characters, other line ends, other blanks."""
_DATA_URL = re.compile(r"(data:[\w.+-]{1,40}/[\w.+-]{1,80}(?:;[\w=.-]{1,40}){0,4};base64,)([A-Za-z0-9+/_=\\-]{64,})")
_ENCODED = re.compile(r"[A-Za-z0-9+/_=-]{512,}|(?<![^\n])(?:[A-Za-z0-9+/_-]{60,}\n){4,}[A-Za-z0-9+/_=-]*")
_LONG = 512


def clean(text: str) -> str:
    """The text without what must not reach a model. Equal input gives equal output; clean text comes back as it is."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
        data = text.encode()
    unusual = len(data) != len(text) and _UNUSUAL.search(data) is not None
    if unusual or data.translate(None, _ALL_BUT_CONTROLS):
        text = _HIDDEN.sub("", _plain(text))
    if len(text) > _LONG and ("base64," in text or 48 * (data.count(b" ") + data.count(b"\n")) < len(data)):
        text = _without_data(text)
    if unusual or " \n" in text or "\t\n" in text or text[-1:].isspace():
        text = "\n".join([line.rstrip() for line in text.split("\n")])
    return text.strip("\n")


def _plain(text: str) -> str:
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPE.sub("␛", _COLOUR.sub("", text))
    return _BREAKS.sub("\n", text).translate(_PICTURES)


def _without_data(text: str) -> str:
    def note(match: re.Match[str]) -> str:
        data = match[match.lastindex or 0]
        kept = match[1] if match.lastindex else ""
        if not kept and not _looks_encoded(data):
            return match[0]
        return f"{kept}[encoded data left out: {len(data):,} characters]"

    return _ENCODED.sub(note, _DATA_URL.sub(note, text))


def _looks_encoded(data: str) -> bool:
    """Letters of both cases and digits in plenty; a long path, a ruler or a run of one letter is none."""
    head = data[:256]
    return len(set(head)) > 12 and any(c.isdigit() for c in head) and any(c.isalpha() for c in head)


def mend_reader_cut(text: str) -> str:
    """Drops the words that touch the reader's cut: a half may be a half of a secret that no rule can tell."""
    return _READER_CUT.sub(r"\n\1\n", text) if "or more characters left out …]" in text else text


def size(text: str) -> int:
    """UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def shorten(text: str, limit: int, *, missing: int) -> str:
    """Head and tail of a redacted text with the cut's mark between, at most `limit` UTF-8 bytes.

    `missing` is how many characters of the whole are not in `text` already. Cuts fall on line ends where one is
    near, and never inside of a redaction mark.
    """
    room = limit - size(CUT.format(len(text) + missing)) - 2
    if room <= 0:
        return ""
    data = text.encode("utf-8", "surrogatepass")
    share = room * 3 // 5
    head = data[:share].decode("utf-8", "ignore")
    tail = data[len(data) - (room - share) :].decode("utf-8", "ignore")
    head, tail = _end_well(head), _begin_well(tail)
    return join(head, tail, len(text) + missing - len(head) - len(tail))


def join(head: str, tail: str, missing: int) -> str:
    """Head and tail with the mark between them."""
    return f"{head.rstrip()}\n{CUT.format(missing)}\n{tail}".strip("\n")


_NEAR = 160


def _end_well(head: str) -> str:
    mark = head.rfind("[redacted:")
    if mark >= 0 and "]" not in head[mark:]:
        return head[:mark]
    line = head.rfind("\n", max(0, len(head) - _NEAR))
    return head[:line] if line > len(head) // 2 else head


def _begin_well(tail: str) -> str:
    end = tail.find("]", 0, 80)
    if end >= 0 and re.fullmatch(r"[a-z0-9:-]*", tail[:end]) and "[" not in tail[:end]:
        tail = tail[end + 1 :]
    line = tail.find("\n", 0, _NEAR)
    return tail[line + 1 :] if 0 <= line < len(tail) // 2 else tail
