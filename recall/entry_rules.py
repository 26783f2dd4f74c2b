"""What may be remembered: sizes, characters and forms of topics, titles and contents [M56 M57 M61]. Pure.

Everything refused is refused with its reason; what is taken out (secrets, invisible characters) is said.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from memory import support
from memory.errors import UsageError
from memory.workspace.topic_text import TIERS

SCOPES = ("user", "project", "agent")
MAX_TOPIC = 60
MAX_TITLE = 120
MAX_CONTENT = 8_000
"""Code points."""
MAX_GIVEN = 200_000
"""Code points that are looked at at all."""
_OURS = re.compile(r"</?slowwave-", re.IGNORECASE)
_JOINERS = "\u200c\u200d"
_PLACEHOLDER = re.compile(r"\[redacted:[a-z0-9-]{1,64}\]|[\W_]+")


class Clean(NamedTuple):
    """Texts fit to be kept. `redacted` names the rules of secrets taken out of the content; `hidden`: invisible
    characters were."""

    topic: str
    title: str
    content: str
    redacted: tuple[str, ...] = ()
    hidden: bool = False


def check_words(scope: str, tier: str) -> None:
    """Raises UsageError for a scope or tier that is none; another project cannot be named at all."""
    if scope not in SCOPES:
        raise UsageError(
            "`scope` is one of user, project, agent; another project cannot be named.",
            hint="project is the one this session works in.",
        )
    if tier not in TIERS:
        raise UsageError("`tier` is one of profile, log, note.", hint="profile is read first, note is consolidated.")


def clean(
    topic: str, title: str, content: str, *, redact: Callable[[str], str], rules: Callable[[str], list[str]]
) -> Clean:
    """The texts as they are kept. `rules` names the secrets in a text. Raises UsageError saying what is wrong."""
    text, hidden = _content(content)
    named = {"topic": _name("topic", topic, MAX_TOPIC), "title": _name("title", title, MAX_TITLE)}
    for what, name in named.items():
        if found := rules(name):
            raise UsageError(
                f"The {what} looks like a secret ({', '.join(found)}); nothing was kept.",
                hint=f"Give it another {what}.",
            )
    found = rules(text)
    clean_text = redact(text).strip("\n") if found else text
    if found and not _PLACEHOLDER.sub("", clean_text):
        raise UsageError(
            f"The content is nothing but a secret ({', '.join(found)}); nothing was kept.",
            hint="Secrets are never remembered.",
        )
    return Clean(named["topic"], named["title"], clean_text, tuple(dict.fromkeys(found)), hidden)


def _name(what: str, given: str, limit: int) -> str:
    """A topic or title: one line. White space, newlines included, becomes single blanks."""
    _check_unicode(what, given)
    name = unicodedata.normalize("NFC", " ".join(given.split()))
    if not name:
        raise UsageError(f"The {what} is empty.", hint="Say in a few words what it is about.")
    if len(name) > limit:
        raise UsageError(f"The {what} has {len(name)} characters; {limit} are allowed.", hint="Shorten it.")
    if any(_is_hidden(char) or unicodedata.category(char) in {"Cc", "Co", "Cn"} for char in name):
        raise UsageError(f"The {what} holds invisible or control characters.", hint="Use plain text.")
    if not any(unicodedata.category(char)[0] in "LNS" for char in name):
        raise UsageError(f"The {what} has no letter or number.", hint="Say in a few words what it is about.")
    if support.has_fence(name) or support.has_role_marker(name):
        raise UsageError(f"The {what} imitates a mark of a conversation or a code fence.", hint="Use plain words.")
    return name


def _content(given: str) -> tuple[str, bool]:
    _check_unicode("content", given)
    text = unicodedata.normalize("NFC", given.replace("\r\n", "\n").replace("\r", "\n"))
    visible = "".join(char for char in text if not _is_hidden(char))
    hidden = visible != text
    visible = visible.replace("\u2028", "\n").replace("\u2029", "\n").lstrip("\n").rstrip()
    if not visible.strip():
        raise UsageError("There is nothing to remember: the content is empty.", hint="Say it in `content`.")
    if len(visible) > MAX_CONTENT:
        raise UsageError(
            f"The content has {len(visible):,} characters; {MAX_CONTENT:,} are allowed.",
            hint="Keep what matters, or make several entries.",
        )
    if any(unicodedata.category(char) == "Cc" and char not in "\n\t" for char in visible):
        raise UsageError("The content holds control characters.", hint="Use plain text.")
    if _OURS.search(visible):
        raise UsageError(
            "The content holds the marks of a memory block: what memory itself says is not remembered again.",
            hint="Say it in your own words.",
        )
    if support.has_role_marker(visible):
        raise UsageError(
            "The content imitates a role of the conversation (such as `system:` at the beginning of a line).",
            hint="Say it in plain words.",
        )
    return visible, hidden


def _check_unicode(what: str, given: str) -> None:
    if len(given) > MAX_GIVEN:
        raise UsageError(f"The {what} has {len(given):,} characters.", hint="Shorten it.")
    try:
        given.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"The {what} holds characters that are not valid Unicode.", hint="Type it again.") from None


def _is_hidden(char: str) -> bool:
    """Invisible or direction-changing; joiners belong to words."""
    return unicodedata.category(char) == "Cf" and char not in _JOINERS
