"""What a provider's failure means, as pure functions from status, headers and body to our errors.

A provider's text may echo the prompt or the answer, so it is only looked at here: no message of ours repeats it.
"""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from memory.errors import (
    ModelError,
    OverflowModelError,
    PermanentModelError,
    QuotaModelError,
    TransientModelError,
)

MAX_LOOKED_AT = 8_000
"""Characters of an error body that are searched."""
MAX_PROSE = 600
"""Longer texts are answers, not notices about the account."""


class Refused(StrEnum):
    """A part of our request that a server may not know; the adapter can do without each."""

    JSON_SCHEMA = "json_schema"
    TOOLS = "tools"
    JSON = "json"
    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"
    TEMPERATURE = "temperature"


_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|string_above_max_length|model_context_window"
    r"|(?:maximum|max|model'?s?|available|supported) context (?:length|size|window)"
    r"|context (?:length|size|window|limit)s?(?: of [\d,]+(?: tokens)?)? (?:is |was |has been |will be )?"
    r"(?:exceed|too|reached|overflow)"
    r"|(?:exceed|larger|longer|greater|bigger|more)\w*(?: than)?(?: the| its| your)?(?: \w+){0,4} "
    r"(?:context|n_ctx|max_model_len)"
    r"|(?:prompt|input|request|messages?|conversation)(?: \w+){0,3} (?:is|are|was) too (?:long|large|big)"
    r"|(?:input|prompt|token)s?(?: [\w()]+){0,3} exceeds?(?: \w+){0,4} (?:limit|maximum|length|allowed|number|size)"
    r"|too many (?:input |prompt )?tokens|reduce the length of (?:the|your)|request too large|entity too large"
    r"|payload too large|requested tokens|max_model_len|\bn_ctx\b|range of input length|token limit (?:was )?exceeded"
    r"|ran out of room in the context|超出.{0,12}(?:上下文|长度|最大)|(?:上下文|输入).{0,12}(?:超出|超过|过长|超长)"
    r"|最大上下文|コンテキスト.{0,12}超え",
    re.IGNORECASE,
)
_OUTPUT_LIMIT = re.compile(
    r"max_(?:completion_)?tokens['\"`]?(?: is| are|:)? (?:too large|too big|invalid|must be|should be)"
    r"|supports at most [\d,]+ (?:completion|output)",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[_ ](?:quota|balance|credit|funds)|billing_(?:hard_limit|not_active)|exceeded your current quota"
    r"|(?:out of|not enough|no remaining|run out of|used up)(?: \w+){0,3} (?:credit|quota|balance|funds)"
    r"|(?:credit|account) balance is (?:too low|insufficient)|credits? (?:exhausted|depleted|required)|quota_exceeded"
    r"|(?:daily|weekly|monthly|hourly|usage|spend(?:ing)?|plan) (?:\w+ )?(?:limit|quota|cap)"
    r"|(?:limit|quota) (?:has been )?(?:exhausted|used up)|payment required|billing (?:details|issue|hard)"
    r"|exceeded (?:your|the) (?:\w+ )?quota|you(?:'|’)?(?:ve| have) (?:hit|reached) your"
    r"|余额不足|额度(?:不足|已用)|配额(?:不足|已用|超)|欠费|账户.{0,6}不足",
    re.IGNORECASE,
)
_PER_MINUTE = re.compile(r"per[ _-]?(?:minute|second)|\b[rt]pm\b|\b[rt]ps\b", re.IGNORECASE)
_PROSE_QUOTA = re.compile(
    rf"{_QUOTA.pattern}|rate limit (?:reached|exceeded)|too many requests|请求过于频繁|quota (?:was )?exceeded",
    re.IGNORECASE,
)
_UNKNOWN_MODEL = re.compile(
    r"model_not_found|(?:model|deployment)\b.{0,80}(?:not found|does ?n[o']t exist|not exist|unknown|invalid"
    r"|not (?:a )?valid|not available|not supported|no access|unavailable)"
    r"|(?:no such|unknown|invalid) model|模型.{0,20}不存在",
    re.IGNORECASE | re.DOTALL,
)
_BAD = (
    r"unsupported|not supported|n[o']t support|unrecognized|unknown|unexpected|invalid|extra (?:inputs|fields)"
    r"|not (?:permitted|allowed|implemented)|only the default"
)
_REFUSED: Mapping[Refused, re.Pattern[str]] = {
    Refused.JSON_SCHEMA: re.compile(
        r"response[_ ]?format|json[_ ]?schema|structured[_ ]?output|guided|grammar|requested parameters", re.IGNORECASE
    ),
    Refused.TOOLS: re.compile(
        r"tool[_ ]?(?:choice|call|use)|\btools?\b|function[_ ]?call|\bfunctions?\b|requested parameters", re.IGNORECASE
    ),
    Refused.JSON: re.compile(r"response[_ ]?format|json[_ ]?(?:object|mode)|requested parameters", re.IGNORECASE),
    Refused.MAX_TOKENS: re.compile(rf"(?:{_BAD}).{{0,60}}max_tokens|max_tokens.{{0,60}}(?:{_BAD})", re.IGNORECASE),
    Refused.MAX_COMPLETION_TOKENS: re.compile(
        rf"(?:{_BAD}).{{0,60}}max_completion_tokens|max_completion_tokens.{{0,60}}(?:{_BAD})", re.IGNORECASE
    ),
    Refused.TEMPERATURE: re.compile(rf"(?:{_BAD}).{{0,60}}temperature|temperature.{{0,60}}(?:{_BAD})", re.IGNORECASE),
}
_NEGOTIABLE = frozenset({400, 404, 405, 415, 422, 500, 501})


def searchable(body: object, fallback: str = "") -> str:
    """An error body as one text to search in."""
    if isinstance(body, (dict, list)):
        text = json.dumps(body, ensure_ascii=False, default=str)
    else:
        text = body if isinstance(body, str) else ""
    return f"{text}\n{fallback}"[:MAX_LOOKED_AT]


def refused_part(status: int, text: str, used: tuple[Refused, ...]) -> Refused | None:
    """Which of the used parts of a request the server does not know, if that is what the answer says."""
    if status not in _NEGOTIABLE or _OVERFLOW.search(text) or _OUTPUT_LIMIT.search(text):
        return None
    return next((part for part in used if _REFUSED[part].search(text)), None)


def http_error(status: int, text: str, headers: Mapping[str, str], *, model: str, now: datetime) -> ModelError:
    """The error for an HTTP answer with a status other than success.

    `text` is the body; the messages name settings and the status, never the body.
    """
    if status in {402, 403, 429} and _is_quota(status, text):
        return QuotaModelError(
            f"The provider says that the quota or credit for {model} is used up (HTTP {status}).",
            status=status,
            retry_after=retry_after(headers, now),
            hint="Raise the limit at the provider; nothing is lost, the next run goes on.",
        )
    if status == 413 or (status in {400, 413, 422, 429, 500} and _OVERFLOW.search(text)):
        return OverflowModelError(f"The input is too long for {model} (HTTP {status}).", status=status)
    if status in {408, 409, 425, 429} or (status >= 500 and status != 501):
        return TransientModelError(
            f"The provider could not answer for {model} just now (HTTP {status}).",
            status=status,
            retry_after=retry_after(headers, now),
        )
    return _permanent(status, text, model)


def _is_quota(status: int, text: str) -> bool:
    if status == 402:
        return True
    return _QUOTA.search(text) is not None and not (status == 429 and _PER_MINUTE.search(text))


def _permanent(status: int, text: str, model: str) -> PermanentModelError:
    if status == 401:
        return PermanentModelError(
            "The provider refused the API key (HTTP 401).", hint="Check model.api_key.", status=status
        )
    if status == 403:
        return PermanentModelError(
            f"The API key may not use {model} (HTTP 403).", hint="Check model.api_key and model.name.", status=status
        )
    if _OUTPUT_LIMIT.search(text):
        return PermanentModelError(
            f"{model} does not allow so long an answer (HTTP {status}).",
            hint="Lower extract.max_output_tokens and consolidate.max_output_tokens.",
            status=status,
        )
    if status in {400, 404, 422} and _UNKNOWN_MODEL.search(text):
        return PermanentModelError(
            f"The provider does not know the model {model} (HTTP {status}).", hint="Check model.name.", status=status
        )
    if status in {404, 405, 501} or status < 400:
        return PermanentModelError(
            f"There is no chat completions API at model.base_url (HTTP {status}).",
            hint="Check model.base_url (it usually ends in /v1) and model.name.",
            status=status,
        )
    return PermanentModelError(
        f"The provider refused the request for {model} as malformed (HTTP {status}).",
        hint="Check model.name, model.mode, model.temperature and model.base_url.",
        status=status,
    )


def connection_error(names: tuple[str, ...], *, model: str) -> ModelError:
    """The error for a failed connection; `names` are the class names of the exception and its causes."""
    if any(name in _BAD_ADDRESS for name in names):
        return PermanentModelError(
            "model.base_url is not an address that can be called.", hint="It must look like https://host/v1."
        )
    if "UnicodeEncodeError" in names or "LocalProtocolError" in names:
        return PermanentModelError(
            "model.api_key has characters that no HTTP header can carry.", hint="Check model.api_key."
        )
    return TransientModelError(
        f"The connection to the provider of {model} failed ({names[0] if names else 'unknown'}).",
        hint="If this stays, check model.base_url and the network.",
    )


_BAD_ADDRESS = frozenset({"UnsupportedProtocol", "InvalidURL", "MissingSchema"})


def body_error(text: str, *, model: str) -> ModelError:
    """The error for a success status whose body is an error, a web page or broken JSON."""
    if _OVERFLOW.search(text):
        return OverflowModelError(f"The input is too long for {model}.")
    if _QUOTA.search(text) and not _PER_MINUTE.search(text):
        return QuotaModelError(
            f"The provider says that the quota or credit for {model} is used up.",
            hint="Raise the limit at the provider; nothing is lost, the next run goes on.",
        )
    return TransientModelError(
        f"The provider of {model} answered with something that is no completion.",
        hint="If this stays, check model.base_url: a proxy or login page may stand in front of it.",
    )


def is_quota_prose(text: str) -> bool:
    """A short plain text in place of an answer that speaks of the account, not of the task."""
    plain = text.strip()
    return (
        0 < len(plain) <= MAX_PROSE and not plain.startswith(("{", "[", "#", "-")) and bool(_PROSE_QUOTA.search(plain))
    )


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds of `Retry-After` (number or HTTP date) or `retry-after-ms`; None where absent or senseless."""
    folded = {key.lower(): value for key, value in headers.items()}
    milliseconds = _number(folded.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = folded.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    if seconds is not None:
        return seconds
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        return None
    return max(0.0, (moment - now).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < float("inf") else None
