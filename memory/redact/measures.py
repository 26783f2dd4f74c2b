"""What a candidate looks like: random, a placeholder, a name, code. Pure functions over short strings."""

from __future__ import annotations

import math
import re
from collections import Counter


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_CLASSES = tuple(map(re.compile, (r"[a-z]", r"[A-Z]", r"\d", r"[^A-Za-z\d]")))
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}", re.IGNORECASE)
_DOTTED = re.compile(r"[A-Za-z_$]\w*(?:(?:\??\.|->|::)[A-Za-z_$]\w*)+")
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]+")
_HASH = re.compile(r"(?:sha|md|blake|crc)\d{1,4}[-:=]", re.IGNORECASE)
_SEMVER = re.compile(r"[v^~=<>]*\d+(?:\.[\dx*]+){1,3}(?:[-+][\w.]+)?")
_PATHLIKE = re.compile(r"(?:\.{0,2}/|~/|[A-Za-z]:\\)|[\w.-]+/[\w./-]+\.\w{1,8}$")
_REFERENCE = re.compile(
    r"""^(?:
        \$\w+ | \$[({] | \{\{ | %\w*% | %\([\w.]+\)[sd]? | %[sdvq]$ | \{\w*\} | <[^>]*>? | \[[^\]]*\]?
        | (?:process\.env|import\.meta\.env|os\.environ|os\.getenv|getenv|environ|env|ENV|Deno\.env|Bun\.env
            |System\.getenv|secrets|vars|vault|op|ssm|aws-sm|gcp-sm|arn|file|config|cfg|settings|self|this|req|request|args|options|opts
            |params|props|data|ctx|context|event|body|user|form|values|state|response|res|result)\b\s*[.\[(:]
        | !(?:Ref|Sub|GetAtt|ImportValue|vault|env|secret)\b
    )""",
    re.VERBOSE,
)
_ELIDED = re.compile(r"^(?:\\[ux][0-9a-fA-F]{2,4})+$|\.{3}|…|x{4,}|X{4,}|\*{3,}|•{2,}|_{4,}|#{4,}")
_FILLER = re.compile(
    r"(?:^|[-_ .<\[])(?:your|my|some|insert|replace|enter|put|add|fake|dummy|placeholder|changeme|change|redacted"
    r"|masked|hidden|removed|todo|tbd|fixme|undisclosed)(?:$|[-_ .>\]])|placeholder|-here\b|_here\b|\bhere>",
    re.IGNORECASE,
)
_NOT_VALUES = word_set(
    """
    string str number int integer boolean bool any unknown object none null undefined bytes text varchar char
    uuid secretstr optional required true false nil void never date datetime list dict map array float token
    tokens password passwords passwd pwd secret secrets key keys input hidden bearer basic digest oauth oauth2
    oidc jwt saml plaintext encrypted hashed default example sample test testing demo empty blank missing
    invalid valid incorrect correct wrong unset value values auth authorization credential credentials username
    user users email login public private yes no on off auto and or not the a an is are was in of for to with
    from by this that it its only also via
    """
)
_NAME_WORDS = word_set(
    """
    auth access refresh session user users id key keys secret secrets api jwt bearer csrf xsrf password passwd
    token tokens login client app service admin db database name credentials credential oauth github gitlab
    google aws azure slack openai anthropic stripe my the test default encrypted private public account provider
    device push reset verify verification registration signing webhook encryption master root storage cookie
    header field type config
    """
)


def words(name: str) -> list[str]:
    """`maxTokens_count2` -> max, tokens, count, 2 (lower case)."""
    return [word.lower() for word in _WORDS.findall(name)]


def entropy(text: str) -> float:
    """Shannon entropy in bits per character; 0 for empty text."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values()) if size else 0.0


def classes(text: str) -> int:
    """How many of lower case, upper case, digits and other characters occur."""
    return sum(pattern.search(text) is not None for pattern in _CLASSES)


def is_placeholder(value: str) -> bool:
    """Stands for a secret without being one: `<your-key>`, `$TOKEN`, `${{ secrets.X }}`, `xxxx`, `os.environ["K"]`."""
    bare = value.strip().strip("\"'`").rstrip("!?;,:)")
    if not bare or len(set(bare)) == 1 or bare.lower() in _NOT_VALUES:
        return True
    return bool(_REFERENCE.match(bare) or _ELIDED.search(bare) or _FILLER.search(bare))


def is_name(value: str) -> bool:
    """Names a secret, a type or a setting instead of being one: `auth_token`, `userPassword`, `SECRET_KEY`."""
    found = words(value)
    if re.fullmatch(r"[A-Z]+(?:_[A-Z]+)+", value):
        return True
    plain = re.fullmatch(r"[A-Za-z][A-Za-z_. :/-]*", value) is not None
    return plain and bool(found) and all(word in _NAME_WORDS or word in _NOT_VALUES for word in found)


def is_expression(value: str) -> bool:
    """Unquoted code: a call, an index, a generic, a macro, a regular expression, a pointer."""
    return bool(re.match(r"[A-Za-z_$][\w$.?:]*!?(?:\(|\[|<|\{)", value)) or value[0] in "([{</&*"


def is_code(value: str) -> bool:
    """An expression, or an unquoted name: dotted, CamelCase or a constant."""
    if is_expression(value) or _DOTTED.fullmatch(value):
        return True
    plain = re.fullmatch(r"[A-Za-z_$]+", value)
    if plain and (value.isupper() or not value.islower() or "_" in value or "$" in value):
        return True
    camel = re.findall(r"[A-Z][a-z]{2,}", value)
    return value.isalnum() and len(camel) >= 2 and 10 * sum(map(len, camel)) >= 7 * len(value)


def is_ordinary(value: str) -> bool:
    """Ids and references that are public by nature: UUIDs, hashes with their name, versions, paths, URLs, numbers."""
    return bool(
        _UUID.fullmatch(value)
        or _HASH.match(value)
        or _SEMVER.fullmatch(value)
        or _PATHLIKE.match(value)
        or "://" in value
        or re.fullmatch(r"[\d.,:+/_-]+", value)
        or re.match(r"data:\w+/", value)
        or re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", value)
    )


def is_hex(value: str) -> bool:
    """Nothing but hexadecimal digits."""
    return _HEX.fullmatch(value) is not None


def is_scrambled(value: str) -> bool:
    """Letters that no language puts in a row: what tells a password from a name where there is no digit."""
    return value.isalpha() and len(value) >= 8 and _CONSONANTS.search(value) is not None


def is_random(value: str, *, length: int = 8) -> bool:
    """Letters and digits mixed as nobody writes words: long enough, not `word2`, `utf-8` or `step-1-of-3`."""
    if len(value) < length or not re.search(r"\d", value) or not re.search(r"[^\W\d_]", value):
        return False
    runs = re.findall(r"[A-Za-z]+|\d+|[^A-Za-z\d]+", value)
    if len(value) >= 16:
        return entropy(value) >= 3.0 and not (value.islower() and re.fullmatch(r"(?:[a-z]{2,}[-_.]?)+\d{0,4}", value))
    return len(runs) >= 3 or classes(value) >= 3 or value[0].isdigit()
