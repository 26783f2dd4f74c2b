"""Text of sessions and of memory as a page may show it: without secrets, and with every invisible sign made visible.

It is data whoever wrote it: markup is escaped, no link is made of it, signs that change the direction or the look of
what stands beside them are shown by their number.
"""

from __future__ import annotations

import unicodedata

from markupsafe import Markup, escape

from memory.redact import Redactor

_JOINERS = "\u200c\u200d"
"""Part of ordinary writing (Persian, Indic scripts, emoji): left alone between letters that are not ASCII."""
_PLAIN = frozenset("\n\t")


def shown(text: object, redactor: Redactor) -> Markup:
    """A text ready for a page."""
    return visible(redactor.redact(str(text)))


def prose(text: object, redactor: Redactor) -> Markup:
    """As `shown`, with what stands in backticks as code. Redacted as a whole: a secret may reach over a backtick."""
    bits = redactor.redact(str(text)).split("`")
    if len(bits) % 2 == 0:  # a backtick without its fellow is only a sign
        return visible("`".join(bits))
    pieces = [Markup("<code>{}</code>").format(visible(bit)) if at % 2 else visible(bit) for at, bit in enumerate(bits)]
    return Markup("").join(pieces)


def plain(text: str, redactor: Redactor) -> str:
    """The same for JSON: redacted, invisible signs as `<U+202E>`."""
    clean = redactor.redact(text)
    if _harmless(clean):
        return clean
    return "".join(f"<{_number(char)}>" if _hides(clean, at) else char for at, char in enumerate(clean))


def visible(text: str) -> Markup:
    """The text escaped, signs without a picture as `<span class="hidden-sign">U+202E</span>`."""
    if _harmless(text):
        return escape(text)
    pieces: list[Markup] = []
    run = 0
    for at, _ in enumerate(text):
        if _hides(text, at):
            pieces += [escape(text[run:at]), Markup('<span class="hidden-sign">{}</span>').format(_number(text[at]))]
            run = at + 1
    return Markup("").join([*pieces, escape(text[run:])])


def hidden_signs(text: str) -> tuple[str, ...]:
    """The signs without a picture that a text holds, once each, by number: for fields, which show a text as it is."""
    if _harmless(text):
        return ()
    return tuple(dict.fromkeys(_number(char) for at, char in enumerate(text) if _hides(text, at)))


def _harmless(text: str) -> bool:
    return text.isprintable() or all(line.isprintable() for line in text.replace("\t", "").split("\n"))


def _hides(text: str, at: int) -> bool:
    char = text[at]
    if char.isprintable() or char in _PLAIN:
        return False
    if char in _JOINERS and 0 < at < len(text) - 1:
        return any(other.isascii() or not other.isprintable() for other in (text[at - 1], text[at + 1]))
    return unicodedata.category(char) not in {"Zs", "Cn"}


def _number(char: str) -> str:
    return f"U+{ord(char):04X}"
