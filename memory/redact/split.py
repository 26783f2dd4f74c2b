"""Secrets broken over lines or string pieces: a key begins at the end of one and goes on at the start of the next."""

from __future__ import annotations

import re

from memory.redact.measures import classes, is_random
from memory.redact.table import Match, Rule, Span, rule

_STARTS = (
    r"(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|sk-ant-|sk-proj-|sk-|AIza|(?:sk|rk)_(?:live|test)_|npm_|pypi-AgE|hf_|SG\."
    r"|AKIA|ASIA|eyJ|ya29\.|dckr_pat_|hvs\.|dop_v1_|whsec_|gsk_|ATATT3|glsa_)"
)
_BODY = r"[\w.+/=-]"
_JOINT = r"(?:[\"']?[ \t]{0,4}[\\+&]?[ \t]{0,4}\r?\n[ \t>|+]{0,24}[\"']?|[\"'][ \t]{0,3}\+[ \t]{0,3}[\"'])"
_LENGTH = 20


def _broken(data: bytes, match: Match) -> Span | None:
    """Both pieces, where together they are as long as a key and the second is no word."""
    first = (match.group("a") or b"").decode("utf-8", "replace")
    second = (match.group("b") or b"").decode("utf-8", "replace").rstrip(".,;:")
    known = re.match(_STARTS, first)
    rest = first[known.end() :] + second if known else ""
    if len(rest) < _LENGTH or len(first) < 8 or re.fullmatch(r"[a-z]+(?:[-_.][a-z]+)*", rest):
        return None
    looks = any(c.isdigit() for c in second) or classes(re.sub(r"[^A-Za-z0-9]", "", second)) >= 2
    if not looks or not is_random(rest, length=_LENGTH) or second.lower().startswith(("http", "/")):
        return None
    return match.start("a"), match.start("b") + len(second.encode())


RULES: tuple[Rule, ...] = (
    rule(
        "split-key",
        rf"\b{_STARTS}{_BODY}+{_JOINT}{_BODY}{{4}}",
        rf"(?P<a>\b{_STARTS}{_BODY}{{3,200}}){_JOINT}(?P<b>{_BODY}{{4,300}})",
        _broken,
        rank=1,
    ),
)
