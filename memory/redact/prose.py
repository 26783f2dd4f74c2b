"""Secrets told in words: "the password is ...", "密码是 ...", "mot de passe : ...", a login pair, a recovery phrase.

Nothing marks such a value but the sentence around it. A random look is enough; a plain word must close its sentence.
"""

from __future__ import annotations

import re

from memory.redact.context import trimmed
from memory.redact.measures import classes, is_name, is_ordinary, is_placeholder, is_random, is_scrambled, word_set
from memory.redact.table import Match, Rule, Span, group_s, rule, text_at

_WORD = (
    r"(?:(?i:pass ?word|passwd|pass ?phrase|pass ?code|\bpin(?: code)?|kennwort|passwort|contraseña|mot de passe|senha"
    r"|parola|wachtwoord|hasło)|密码|口令|密碼|パスワード|비밀번호|[Пп]арол[ья])"
)
_SET_TO = r"\s(?i:(?:is |was |has been |been )?(?:re)?(?:set|changed|updated) (?:to|as))\s{1,3}"
_COPULA = (
    rf"(?:{_SET_TO}|\s{{1,3}}(?i:is|was|to|as|est|es|ist|lautet|è|é)(?: now)?:?\s{{1,3}}"
    r"|\s{0,2}(?:=|:|：|->|→)\s{0,3}|\s?(?:是|为|為|改成|改为|设为|设成|は|는)[：:]?\s?)"
)
_OPEN = r"(?:[\"'`*_]{0,3}|“|「|‘)"
_FOR = r"(?:\s(?i:for|of|on|to|pour|de|del|para|für)\s[^\n:=]{1,40})?"
_FOR_GATE = r"(?:\s(?i:for|of|on|to|pour|de|del|para|für)\s[^\n:=]*)?"
_AFTER_IS = word_set(
    """
    required incorrect wrong invalid correct valid set not a an the stored hashed now only still also never
    always already being sent used needed missing empty expired protected encrypted optional visible hidden safe
    secure weak strong too very what where when how why who which that this these those your our my his her
    their its case the same different changed updated reset removed rotated generated shared kept saved passed
    given read written shown masked redacted in on at to for from with by of and or but if so as is was are were
    be been has have had will would can could should must may might do does did no yes ok okay fine bad good new
    old long short unknown none null undefined nothing something anything everything here there available
    unavailable handled managed checked verified validated compared access login recovery manager field prompt
    """
)
_CODE_IN_PROSE = re.compile(r"[\w.][(\[<{]|^!\d|,\w+:|=>")
_DIRECT = {b"to", b"as"}
_QUOTES = tuple(mark.encode() for mark in ('"', "'", "`", "“", "「", "‘"))
_STOPS = tuple(mark.encode() for mark in (".", "\n", "\r", ";", "。", "，", "）"))


def _prose(data: bytes, match: Match) -> Span | None:
    start, end = match.span("s")
    text = text_at(data, (start, end)).rstrip(".,;:!?)]}>'\"`”’」*")
    end = start + len(text.encode())
    lower = text.lower()
    if len(text) < 4 or lower in _AFTER_IS or is_placeholder(text) or is_name(text) or _CODE_IN_PROSE.search(text):
        return None
    if (match.group("w") or b"").lower().startswith(b"pin"):
        return (start, end) if re.fullmatch(r"\d{4,8}", text) else None
    if any(c.isdigit() for c in text) or classes(text) >= 3 or is_scrambled(text):
        return (
            None
            if re.fullmatch(
                r"[\d.,]{1,3}|v?\d+(?:\.\d+)+\S*|\d{1,3}[-_]?(?:char|digit|letter|word|bit|byte|day|hour|min)\w*", lower
            )
            else (start, end)
        )
    copula = (match.group("c") or b"").strip().lower()
    if copula in _DIRECT or re.fullmatch(r"[a-z]{4,24}", text) is None:
        return None
    if data[:start].endswith(_QUOTES):
        return start, end
    rest = data[end : end + 4].lstrip(b" \"'`*)")
    verbal = lower.endswith(("ed", "ing", "ly", "able", "ible", "ful", "less"))
    return (start, end) if not verbal and (not rest or rest.startswith(_STOPS)) else None


def _named_after(data: bytes, match: Match) -> Span | None:
    """`Tr0ub4dor is the root password`, `admin:Tr0ub4dor`: no sign but the look of the value."""
    span = trimmed(data, match.span("s"))
    text = text_at(data, span)
    return span if len(text) >= 6 and is_random(text, length=6) and "/" not in text and not is_ordinary(text) else None


def _quoted(data: bytes, match: Match) -> Span | None:
    """`password "hunter2"`: quotes and a digit, for a quoted name follows the word as often."""
    text = text_at(data, match.span("s"))
    secret = re.search(r"[A-Za-z]", text) and re.search(r"\d", text) and not is_placeholder(text)
    return match.span("s") if secret and not is_ordinary(text) else None


_LOGIN_WORD = r"(?i:login|log in|sign in|credentials|creds|user(?:name)?/pass(?:word)?)\b"
_LOGIN = rf"{_LOGIN_WORD}[^\n:]{{0,24}}[ :(`\"'][\w.@-]{{2,40}} ?[/:] ?"
_PHRASE = r"(?i:seed|mnemonic|recovery)[ _-]?(?i:phrase|words?)?[\"'`]?\s{0,2}(?:[:=]|is)\s{0,2}[\"'`]?"
_IS_THE = r" (?i:is|as|est|ist) (?i:the|my|our|your|le|das|mein) "
_SECRET_WORD = r"(?i:password|passphrase|passcode)\b"

RULES: tuple[Rule, ...] = (
    rule(
        "password",
        rf"{_WORD}[\"'`*_)]*{_FOR_GATE}{_COPULA}{_OPEN}[!-~]{{3}}",
        rf"(?P<w>{_WORD})[\"'`*_)]{{0,3}}{_FOR}(?P<c>{_COPULA}){_OPEN}(?P<s>[!#-&(-_a-~]{{3,64}})",
        _prose,
        rank=6,
    ),
    rule(
        "password",
        rf"[!-~]{{6}}{_IS_THE}[\w ]*{_SECRET_WORD}",
        rf"(?P<s>[!-~]{{6,64}}){_IS_THE}(?:\w{{1,12}} ){{0,2}}{_SECRET_WORD}",
        _named_after,
        rank=6,
    ),
    rule(
        "password",
        rf"{_WORD}\s[\"'`“][!-~]{{4}}",
        rf"{_WORD}\s[\"'`“](?P<s>[!#-&(-_a-~]{{4,64}})[\"'`”]",
        _quoted,
        rank=6,
    ),
    rule(
        "login",
        rf"{_LOGIN_WORD}[^\n:/]*[/:][!-~]{{4}}",
        rf"{_LOGIN}(?P<s>[!#-&(-_a-~]{{4,64}})",
        _named_after,
        rank=7,
    ),
    rule(
        "recovery-phrase",
        rf"{_PHRASE}(?:[a-z]+[ ,]+){{4}}",
        rf"{_PHRASE}(?P<s>(?:[a-z]{{3,8}}[ ,]{{1,2}}){{11,23}}[a-z]{{3,8}})",
        group_s,
        rank=4,
    ),
)
"""Rules that read sentences."""
