"""The settings a person may change on the page: what they are, where their values come from, what a form asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from memory import models, settings_file
from memory.errors import SettingsError, UsageError
from memory.model import Host
from memory.redact import Redactor
from memory.settings import SECTIONS, RedactSettings, Settings
from memory.settings_file import UNSET, Key

Kind = Literal["choice", "switch", "number", "whole", "text", "secret", "limit", "whole_limit", "lines", "set"]
"""`lines` is a list with an entry on each line of a field, `set` some of the choices."""
HOSTS = tuple(host.value for host in Host)
Origin = Literal["environment", "file", "default"]


@dataclass(frozen=True, slots=True)
class Option:
    """A setting on the page."""

    section: str
    key: str
    kind: Kind
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    def shown(self, value: Value) -> str:
        """As a field shows a value: long numbers in groups of three, an entry of a list on each line."""
        if self.kind in {"lines", "set"}:
            return "\n".join(value.entries)
        return f"{int(value.text):,}" if self.kind == "whole_limit" and value.text.isdecimal() else value.text


@dataclass(frozen=True, slots=True)
class Value:
    """A setting as it holds now. `text` is what its field shows: never a secret, of which `is_set` tells alone.
    `variable` is what in the environment stands above the file, `entries` are those of a list."""

    name: str
    text: str
    is_set: bool
    origin: Origin
    default: str
    secret: bool
    variable: str = ""
    entries: tuple[str, ...] = ()


def _many(section: str, kind: Kind, keys: str) -> tuple[Option, ...]:
    return tuple(Option(section, key, kind) for key in keys.split())


GROUPS: dict[str, tuple[Option, ...]] = {
    "memory": (
        Option("memory", "mode", "choice", ("off", "short", "long")),
        Option("memory", "enabled", "switch"),
        Option("memory", "language", "choice", ("auto", "en", "zh")),
        Option("inject", "scope", "choice", ("project", "all")),
    ),
    "model": (
        Option("model", "provider", "choice", ("auto", "openai", "offline")),
        Option("model", "base_url", "text"),
        Option("model", "name", "text"),
        Option("model", "extract_name", "text"),
        Option("model", "consolidate_name", "text"),
        Option("model", "api_key", "secret"),
    ),
    "windows": (
        *_many("extract", "number", "idle_hours max_age_days"),
        *_many("extract", "whole", "batch"),
        *_many("consolidate", "whole", "max_sources"),
        *_many("consolidate", "number", "unused_days cooldown_minutes"),
        *_many("consolidate", "whole", "max_requests versions"),
    ),
    "sessions": (
        Option("rollouts", "hosts", "set", HOSTS),
        *_many("rollouts", "lines", "codex_roots claude_roots pi_roots generic_roots"),
        *_many("rollouts", "switch", "exec_sessions skip_external"),
    ),
    "schedule": (
        Option("schedule", "enabled", "switch"),
        Option("schedule", "every_minutes", "number"),
        Option("schedule", "cron", "text"),
        Option("service", "wake_minutes", "number"),
    ),
    "budget": (
        *_many("budget", "whole_limit", "run_requests run_tokens"),
        *_many("budget", "limit", "run_money"),
        *_many("budget", "whole_limit", "day_requests day_tokens"),
        *_many("budget", "limit", "day_money"),
        *_many("budget", "whole_limit", "project_day_requests project_day_tokens"),
        *_many("budget", "limit", "project_day_money"),
    ),
    "redact": (
        Option("redact", "entropy", "switch"),
        *_many("redact", "lines", "extra_patterns allow_patterns"),
    ),
    "names": (
        Option("service", "names", "lines"),
        Option("mcp", "names", "lines"),
    ),
}
OPTIONS = {option.name: option for group in GROUPS.values() for option in group}
COMMON = {"model.api_key": "OPENAI_API_KEY", "model.base_url": "OPENAI_BASE_URL"}
"""Variables that are not ours and are honoured where ours are silent."""


@dataclass(frozen=True, slots=True)
class Known:
    """Settings with the file they came from: `text` as it stands there, `data` what it says."""

    settings: Settings
    text: str
    data: Mapping[str, Any]

    @property
    def mark(self) -> str:
        """Names this state of the file."""
        return settings_file.fingerprint(self.text)

    def value(self, section: str, key: str) -> Value:
        name = f"{section}.{key}"
        part = getattr(self.settings, section)
        now = getattr(part, key)
        default = type(part).model_fields[key].get_default(call_default_factory=True)
        origin = self._origin(section, key, now, default)
        variable = ""
        if origin == "environment":
            ours = name in self.settings.overridden
            variable = f"SLOWWAVE_{section}_{key}".upper() if ours else COMMON.get(name, "")
        # An address may carry a password or a key.
        secret = isinstance(now, SecretStr) or (key.endswith("url") and any(sign in str(now) for sign in "@?"))
        told = "" if secret else text_of(now)
        is_set = now not in (None, "", SecretStr(""))
        entries = self._entries(section, key, origin) or tuple(map(str, now)) if isinstance(now, tuple) else ()
        return Value(name, told, is_set, origin, text_of(default), secret, variable, entries)

    def _entries(self, section: str, key: str, origin: Origin) -> tuple[str, ...]:
        """A list as it stands in the file: `~` is not written out by looking at it."""
        written = self.data[section].get(key) if origin == "file" else None
        return tuple(map(str, written)) if isinstance(written, list) else ()

    def every(self) -> list[Value]:
        """All there are, in order."""
        return [
            self.value(section, key)
            for section in SECTIONS
            for key in type(getattr(self.settings, section)).model_fields
        ]

    def _origin(self, section: str, key: str, now: object, default: object) -> Origin:
        if f"{section}.{key}" in self.settings.overridden:
            return "environment"
        part = self.data.get(section)
        if isinstance(part, dict) and part.get(key) not in (None, ""):
            return "file"
        if f"{section}.{key}" in COMMON and now != default:
            return "environment"
        return "file" if isinstance(part, dict) and key in part else "default"


def known(settings: Settings) -> Known:
    """Raises SettingsError where the file cannot be read."""
    path = settings.config_file
    text = settings_file.read(path)
    return Known(settings, text, settings_file.values(text, path))


def text_of(value: object) -> str:
    """As a field shows it: empty for nothing, `yes` and `no`, lists by commas."""
    if value is None or isinstance(value, SecretStr):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    if isinstance(value, tuple | list):
        return ", ".join(str(one) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {one.input:g}/{one.output:g}" for name, one in value.items())
    return str(value)


# -- changing -----------------------------------------------------------------------------------------


def asked(found: Known, group: str, fields: Mapping[str, str]) -> dict[Key, object]:
    """What a form of a group changes: only what differs from what holds now, and what the environment does not hold.

    Raises UsageError naming the setting for a text that is no number.
    """
    changes: dict[Key, object] = {}
    for option in GROUPS[group]:
        now = found.value(option.section, option.key)
        if now.origin == "environment" or option.name not in fields:
            continue
        text = sent(option, fields)
        if option.kind == "secret" or now.secret:
            if fields.get(f"{option.name}.remove"):
                changes[(option.section, option.key)] = UNSET
            elif text:
                changes[(option.section, option.key)] = text
        elif option.kind == "switch":
            if (text == "yes") != (now.text == "yes"):
                changes[(option.section, option.key)] = text == "yes"
        elif text not in (now.text, option.shown(now)):
            changes[(option.section, option.key)] = _parsed(option, text, now)
    return changes


def sent(option: Option, fields: Mapping[str, str]) -> str:
    """What a form says of an option; of a set each choice has a box of its own."""
    if option.kind == "set":
        return "\n".join(one for one in option.choices if fields.get(f"{option.name}.{one}"))
    return fields.get(option.name, "").strip()


def complaint(found: Known, name: str, text: str) -> str:
    """What is wrong about a value while it is being typed; empty where it could be written.

    Raises UsageError for a setting that has no field.
    """
    option = OPTIONS.get(name)
    if option is None or option.kind in {"secret", "set"}:
        raise UsageError(f"{name[:80]} has no field that could be checked.", hint="")
    now = found.value(option.section, option.key)
    path = found.settings.config_file
    try:
        value = _parsed(option, text.strip(), now)
        _check(found, settings_file.edited(found.text, {(option.section, option.key): value}, path))
    except (SettingsError, UsageError) as error:
        return error.message
    return ""


def missing_folders(name: str, text: str) -> list[str]:
    """Folders a list of roots names that are not there: they may come, so this is no fault."""
    if not name.endswith("_roots"):
        return []
    return [one for one in _entries(text) if not Path(one).expanduser().is_dir()]


def typed(name: str, value: object, found: Known) -> tuple[Key, object]:
    """A change as a program asks for it: null takes the setting out of the file. Raises UsageError."""
    option = OPTIONS.get(name)
    if option is None:
        raise UsageError(f"{name[:80]} cannot be changed here.", hint="Edit config.toml.")
    now = found.value(option.section, option.key)
    if now.origin == "environment":
        raise UsageError(f"{name} is set by {now.variable or 'the environment'}.", hint="Change it there.")
    return (option.section, option.key), UNSET if value is None else value


def apply(found: Known, changes: Mapping[Key, object], *, mark: str) -> bool:
    """Writes changes into the file of the settings. False where there are none.

    Raises SettingsError with nothing written: for a bad value, and for a provider without the name of a model.
    """
    if not changes:
        return False
    path = found.settings.config_file
    after = settings_file.edited(found.text, changes, path)
    _check(found, after)
    return settings_file.write(path, changes, expect=mark)


def _check(found: Known, after: str) -> None:
    """Whether a text would do as the file. Raises SettingsError."""
    path = found.settings.config_file
    settings_file.check(after, path)
    rules = settings_file.values(after, path).get("redact", {})
    Redactor(RedactSettings(**rules), quick=True)  # patterns are compiled
    _check_model(found, after)


def _check_model(found: Known, after: str) -> None:
    """A change must not take away the model a stage has."""
    data = settings_file.values(after, found.settings.config_file).get("model", {})
    kept = {key: value for key, value in data.items() if f"model.{key}" not in found.settings.overridden}
    held = {
        key: getattr(found.settings.model, key)
        for key in type(found.settings.model).model_fields
        if found.value("model", key).origin == "environment"
    }
    model = type(found.settings.model)(**(held | kept))
    for role in models.ROLES:
        try:
            models.choose(found.settings.model, role)
        except SettingsError:
            return  # it was like that before
        models.choose(model, role)


def _parsed(option: Option, text: str, now: Value) -> object:
    """The value a field's text stands for; an empty one is the default, or no limit."""
    if option.kind in {"lines", "set"}:
        return _entries(text) or (UNSET if option.kind == "lines" else [])
    if not text:
        return "none" if option.kind in {"limit", "whole_limit"} and now.default else UNSET
    if option.kind in {"text", "choice"}:
        return text
    try:
        number = float(text.replace(",", "").replace("_", "").replace(" ", ""))
    except ValueError:
        raise UsageError(f"{option.name}: {text[:40]!r} is no number.", hint="Nothing was written.") from None
    if number.is_integer() and abs(number) < 1e15:
        return int(number)
    if option.kind in {"whole", "whole_limit"}:
        raise UsageError(f"{option.name}: {text[:40]!r} is no whole number.", hint="Nothing was written.")
    return number


def _entries(text: str) -> list[str]:
    """An entry for each line, once."""
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def price(fields: Mapping[str, str]) -> tuple[Key, object]:
    """The price of a model from its form. Raises UsageError."""
    name = fields.get("model", "").strip()
    if not name or len(name) > 200:
        raise UsageError("budget.prices: a price needs the name of a model.", hint="Nothing was written.")
    key: Key = ("budget", "prices", name)
    if fields.get("remove"):
        return key, UNSET
    values: dict[str, object] = {}
    for part in ("input", "output", "cached_input"):
        text = fields.get(part, "").strip()
        if not text and part == "cached_input":
            continue
        try:
            values[part] = float(text)
        except ValueError:
            raise UsageError(f"budget.prices: {part} is no number.", hint="Nothing was written.") from None
    return key, values
