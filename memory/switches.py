"""What a hook has to know of the settings, with the standard library alone: home, mode, what is injected [Z007 Z009].

The same file, variables and defaults as `memory.settings`, which checks everything and is too slow for a hook (a test
holds the two together). There is one stored value of each: `[memory]` is the policy, `[model]`, `[schedule]` and the
rest belong to the service [Z008]. A value that cannot be used switches memory off: settings fail closed, and the
problem is named for `status`.

Nothing here is imported from a third party and nothing heavy from the standard library; TOML is only read when the
file is not the one a caller has read before.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MODES = ("off", "short", "long")
SCOPES = ("project", "all")
DEFAULTS: dict[str, dict[str, object]] = {
    "memory": {"mode": "short", "enabled": True},
    "inject": {"short_in_long": True, "scope": "project", "pi_chars": 9_000, "titles": False},
    "model": {"name": "", "extract_name": "", "consolidate_name": ""},
}
"""The keys a hook reads, with the defaults of `memory.settings`."""

_TRUE = frozenset({"true", "1", "1.0", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "0.0", "no", "off", "f", "n"})
DEFAULT_STORE = "default"
OWN_SESSION_VARIABLE = "SLOWWAVE_OWN_SESSION"
MAX_CONFIG_BYTES = 1 << 20

Values = dict[str, dict[str, object]]
Signature = list[int] | None


class Switches:
    """The values in force now. `home` is the data folder of the store, absolute; `problem` is empty or one sentence."""

    __slots__ = ("config", "home", "problem", "signature", "stored", "values")

    def __init__(
        self, home: str, config: str, stored: Values, signature: Signature, values: Values, problem: str
    ) -> None:
        self.home = home
        self.config = config
        self.stored = stored
        self.signature = signature
        self.values = values
        self.problem = problem

    @property
    def enabled(self) -> bool:
        """False is off whatever the mode says; the options stay where they are [Z009 Z010]."""
        return not self.problem and self.values["memory"]["enabled"] is True

    @property
    def mode(self) -> str:
        """The effective mode: `off` while switched off or while the settings cannot be used."""
        return str(self.values["memory"]["mode"]) if self.enabled else "off"

    @property
    def short_in_long(self) -> bool:
        return self.values["inject"]["short_in_long"] is True

    @property
    def titles(self) -> bool:
        return self.values["inject"]["titles"] is True

    @property
    def scope(self) -> str:
        return str(self.values["inject"]["scope"])

    @property
    def pi_chars(self) -> int:
        value = self.values["inject"]["pi_chars"]
        return value if isinstance(value, int) else 0

    @property
    def models(self) -> dict[str, str]:
        """Names of the service's models as configured; empty where the provider's default is used."""
        section = self.values["model"]
        name = str(section["name"])
        return {stage: str(section[f"{stage}_name"] or name) for stage in ("extract", "consolidate")}


def from_process(known: tuple[Signature, Values] | None = None) -> Switches:
    """The switches of this process's environment; `known` as in `load`."""
    return load(os.environ, known)


def is_own_session() -> bool:
    """Whether this process belongs to a session we started ourselves, which gets and gives no memory [Z068]."""
    return bool(os.environ.get(OWN_SESSION_VARIABLE))


def variable(name: str) -> str:
    """An environment variable, empty when it is not set."""
    return os.environ.get(name, "")


def load(environ: Mapping[str, str], known: tuple[Signature, Values] | None = None) -> Switches:
    """Never raises. `known` is a file's (signature, values) from before: the same file is not read again."""
    default = os.path.join(default_home(environ), "config.toml")
    config = os.path.abspath(os.path.expanduser(environ.get("SLOWWAVE_CONFIG") or default))
    home = store_home(environ)
    problem = "" if home else "SLOWWAVE_STORE cannot name a store; memory is off until it can."
    signature = signature_of(config)
    if known is not None and known[0] == signature:
        stored = known[1]
    else:
        stored, found = _read(config, signature)
        problem = problem or found
    values: Values = {section: {**keys, **stored.get(section, {})} for section, keys in DEFAULTS.items()}
    problem = problem or str(stored.get("problem", {}).get("text", ""))
    _overlay(environ, values)
    _truths(values)
    return Switches(home, config, stored, signature, values, problem or _problem(values))


def process_home() -> str:
    """`store_home` of this process's environment."""
    return store_home(os.environ)


def store_home(environ: Mapping[str, str]) -> str:
    """The data folder of the store in use; empty where `SLOWWAVE_STORE` cannot name one."""
    store = environ.get("SLOWWAVE_STORE") or DEFAULT_STORE
    home = default_home(environ)
    if store == DEFAULT_STORE:
        return home
    return os.path.join(home, "stores", store) if _is_store_name(store) else ""


def default_home(environ: Mapping[str, str]) -> str:
    """`SLOWWAVE_HOME`, else the user's data folder as `memory.settings.home_directory` finds it."""
    explicit = environ.get("SLOWWAVE_HOME")
    if explicit:
        return os.path.abspath(os.path.expanduser(explicit))
    user = environ.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(user, "Library", "Application Support", "slowwave")
    data = (environ.get("XDG_DATA_HOME") or "").strip()
    return os.path.join(data or os.path.join(user, ".local", "share"), "slowwave")


def signature_of(path: str) -> Signature:
    """What tells two states of a file apart without reading it; None where there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev]


def _is_store_name(name: str) -> bool:
    letters = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
    return 1 <= len(name) <= 40 and name[0] in letters and set(name) <= letters | {"-"}


def _read(path: str, signature: Signature) -> tuple[Values, str]:
    """The sections a hook knows, and what is wrong with the file. The problem is kept with them, as a section."""
    if signature is None:
        return {}, ""
    import tomllib

    try:
        if signature[2] > MAX_CONFIG_BYTES:
            raise ValueError("too large")
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError):  # ValueError: no TOML, or not UTF-8
        problem = f"{path} cannot be read as TOML; memory is off until it can."
        return {"problem": {"text": problem}}, problem
    stored: Values = {}
    for section, keys in DEFAULTS.items():
        found = data.get(section)
        if isinstance(found, dict):
            stored[section] = {key: found[key] for key in keys if key in found}
    return stored, ""


def _overlay(environ: Mapping[str, str], values: Values) -> None:
    for section, keys in values.items():
        for key, default in DEFAULTS[section].items():
            raw = environ.get(f"SLOWWAVE_{section}_{key}".upper())
            if not raw:
                continue
            if isinstance(default, bool):
                keys[key] = raw
            elif isinstance(default, int):
                keys[key] = int(raw) if raw.isascii() and raw.isdigit() else raw
            else:
                keys[key] = raw


def _truths(values: Values) -> None:
    """What passes for true and false in the settings does so here."""
    for section, keys in values.items():
        for key, value in keys.items():
            if isinstance(DEFAULTS[section][key], bool) and not isinstance(value, bool):
                word = value.lower() if isinstance(value, str) else str(value)
                keys[key] = True if word in _TRUE else False if word in _FALSE else value


def _problem(values: Values) -> str:
    memory, inject = values["memory"], values["inject"]
    chars = inject["pi_chars"]
    rules = (
        (memory["mode"] in MODES, "memory.mode must be off, short or long"),
        (isinstance(memory["enabled"], bool), "memory.enabled must be true or false"),
        (inject["scope"] in SCOPES, "inject.scope must be project or all"),
        (isinstance(inject["short_in_long"], bool), "inject.short_in_long must be true or false"),
        (isinstance(inject["titles"], bool), "inject.titles must be true or false"),
        (isinstance(chars, int) and not isinstance(chars, bool) and chars >= 0, "inject.pi_chars must be a number"),
        (all(isinstance(name, str) for name in values["model"].values()), "model names must be text"),
    )
    return next((f"{text}; memory is off until it is." for right, text in rules if not right), "")
