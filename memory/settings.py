"""Settings: `config.toml` under the home, then the environment. The only module that reads the environment.

A key `[extract] idle_hours` is `SLOWWAVE_EXTRACT_IDLE_HOURS` in the environment; an empty variable counts as
unset. An unknown key, in the file or in the environment, is an error that names the nearest known one. Old settings
formats are not converted [Z012 Z013]. Numbers are defaults; each one's unit is in its name or docstring.
`docs/settings.md` lists them all, and a test holds that table and these classes together.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator

from memory.errors import SettingsError

RESERVED = frozenset(
    {
        "HOME",
        "STORE",
        "CORPUS",
        "BENCH_DATA",
        "OWN_SESSION",
        "FAILPOINT",
        "CONFIG",
        "API_KEY",
        "CACHE",
        "HOOK_LOG",
        "HOSTS",
        "SERVICE_WORKER",
    }
)
"""`SLOWWAVE_<name>` variables that are not settings: places, test data and the mark of our own sessions."""

OWN_SESSION_VARIABLE = "SLOWWAVE_OWN_SESSION"
"""Set in the environment of every agent process we start, so that its session is never evidence [Z068]."""

WORKER_VARIABLE = "SLOWWAVE_SERVICE_WORKER"


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _common(cls, value: object, info: ValidationInfo) -> object:
        """`"none"` where a setting may be absent (TOML has no word for it); no truth value for a number."""
        annotation = str(cls.model_fields[info.field_name or ""].annotation)
        if isinstance(value, bool) and "bool" not in annotation:
            raise ValueError("true and false do not fit here")
        return None if value == "none" and annotation.endswith("| None") else value


class MemorySettings(Section):
    """Policy. `enabled = false` is mode off with the options kept [Z009 Z010]."""

    mode: Literal["off", "short", "long"] = "short"
    enabled: bool = True
    language: Literal["auto", "en", "zh"] = "auto"


class RolloutSettings(Section):
    """Where sessions are looked for. An empty list of roots means the host's own default folders."""

    hosts: tuple[Literal["codex", "claude", "pi", "generic"], ...] = ("codex", "claude", "pi", "generic")
    codex_roots: tuple[Path, ...] = ()
    claude_roots: tuple[Path, ...] = ()
    pi_roots: tuple[Path, ...] = ()
    generic_roots: tuple[Path, ...] = ()
    exec_sessions: bool = True
    """Whether sessions started without a person at the keyboard (`codex exec`, `claude -p`) count."""
    max_files: int = Field(default=100_000, ge=1)
    """Bound of one discovery walk, in files [Z066]."""
    skip_external: bool = False
    """Leave out sessions that used web or MCP content."""

    @field_validator("codex_roots", "claude_roots", "pi_roots", "generic_roots", mode="after")
    @classmethod
    def _home(cls, roots: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(root.expanduser() for root in roots)


class ExtractSettings(Section):
    """Stage 1."""

    max_age_days: float = Field(default=10, gt=0)
    idle_hours: float = Field(default=6, ge=0)
    batch: int = Field(default=2, ge=0, le=10_000)
    scan_limit: int = Field(default=5_000, ge=1)
    concurrency: int = Field(default=2, ge=1, le=64)
    backoff_minutes: float = Field(default=60, ge=0)
    max_failures: int = Field(default=3, ge=1)
    lease_minutes: float = Field(default=10, gt=0)
    window_share: float = Field(default=0.7, gt=0, le=0.95)
    fallback_window: int = Field(default=32_000, ge=1_000)
    tool_output_tokens: int = Field(default=2_000, ge=16)
    event_bytes: int = Field(default=10_000, ge=256)
    repairs: int = Field(default=2, ge=0, le=5)
    request_minutes: float = Field(default=5, gt=0)
    max_output_tokens: int = Field(default=4_000, ge=64)


class ConsolidateSettings(Section):
    """Stage 2."""

    max_sources: int = Field(default=256, ge=1)
    unused_days: float = Field(default=30, gt=0)
    max_chars: int = Field(default=300_000, ge=1_000)
    max_requests: int = Field(default=64, ge=0)
    batch_minutes: float = Field(default=15, gt=0)
    request_minutes: float = Field(default=5, gt=0)
    max_output_tokens: int = Field(default=8_000, ge=64)
    lease_minutes: float = Field(default=5, gt=0)
    backoff_minutes: float = Field(default=60, ge=0)
    max_failures: int = Field(default=3, ge=1)
    cooldown_minutes: float = Field(default=60, ge=0)
    """Wait between two automatic consolidations; a manual run does not wait."""
    versions: int = Field(default=10, ge=1)
    same_error_limit: int = Field(default=5, ge=2)
    """Identical failing tool calls in a row before the agent is stopped."""


class ModelSettings(Section):
    """The model behind the port. Model names come only from here."""

    provider: Literal["auto", "openai", "offline"] = "auto"
    base_url: str = Field(default="", repr=False)
    api_key: SecretStr = SecretStr("")
    name: str = ""
    extract_name: str = ""
    consolidate_name: str = ""
    mode: Literal["auto", "json_schema", "tools", "json", "md_json"] = "auto"
    window: int = Field(default=0, ge=0)
    """Context window in tokens; 0 asks the provider, then falls back to `extract.fallback_window`."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    retries: int = Field(default=4, ge=0, le=20)
    """Transport retries inside one attempt."""
    max_retry_after_seconds: float = Field(default=120, ge=0)
    """A longer Retry-After pauses the batch instead of being waited for."""
    vocabulary: str = "o200k_base"

    def extract_model(self) -> str:
        return self.extract_name or self.name

    def consolidate_model(self) -> str:
        return self.consolidate_name or self.name


class Price(Section):
    """Money for a million tokens, in the currency the user thinks in."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)


class BudgetSettings(Section):
    """Ceilings; `"none"` is no ceiling, 0 allows nothing. Days are UTC days."""

    run_requests: int | None = Field(default=None, ge=0)
    run_tokens: int | None = Field(default=2_000_000, ge=0)
    run_money: float | None = Field(default=None, ge=0)
    day_requests: int | None = Field(default=None, ge=0)
    day_tokens: int | None = Field(default=10_000_000, ge=0)
    day_money: float | None = Field(default=None, ge=0)
    project_day_requests: int | None = Field(default=None, ge=0)
    project_day_tokens: int | None = Field(default=None, ge=0)
    project_day_money: float | None = Field(default=None, ge=0)
    prices: dict[str, Price] = Field(default_factory=dict)
    """`[budget.prices."model-name"]`; a model without a price is held by token ceilings only."""


class RedactSettings(Section):
    entropy: bool = True
    extra_patterns: tuple[str, ...] = ()
    allow_patterns: tuple[str, ...] = ()


class InjectSettings(Section):
    short_in_long: bool = True
    scope: Literal["project", "all"] = "project"
    pi_chars: int = Field(default=9_000, ge=0)
    """Cap of one block in Pi, which has none of its own, in characters."""
    titles: bool = False
    """Whether mode `long` brings the titles of what the memory tools keep."""


class IndexSettings(Section):
    evidence: Literal["off", "user", "all"] = "off"
    semantic: bool = False
    """Search by meaning beside words; needs the extra `semantic`."""


class McpSettings(Section):
    """The server of the memory tools."""

    max_chars: int = Field(default=16_000, ge=1_000, le=1_000_000)
    """One answer, in code points; what is cut says so."""
    host: str = "127.0.0.1"
    port: int = Field(default=8_777, ge=0, le=65_535)
    token: SecretStr = SecretStr("")
    """What clients of `--http` must send; empty: one that is made and kept in the data folder, on loopback only."""
    names: tuple[str, ...] = ()
    """Further names clients may call the HTTP server by."""


class ScheduleSettings(Section):
    every_minutes: float = Field(default=30, gt=0)
    cron: str = ""
    enabled: bool = True


class ServiceSettings(Section):
    """What `slowwave up` starts."""

    host: str = "127.0.0.1"
    """Where the dashboard listens; anywhere but on loopback it wants `token`."""
    port: int = Field(default=4816, ge=0, le=65_535)
    """The dashboard's; another one is taken where it is in use. 0 takes a free one."""
    token: SecretStr = SecretStr("")
    names: tuple[str, ...] = ()
    """Further names people may call the dashboard by."""
    prefect_port: int = Field(default=0, ge=0, le=65_535)
    """The server's own; 0 takes a free one."""
    wake_minutes: float = Field(default=5, ge=0)
    """Least time between two runs woken by hooks."""


class StateSettings(Section):
    url: SecretStr = SecretStr("")
    """SQLAlchemy URL, it may hold a password; empty is SQLite in the home."""
    busy_seconds: float = Field(default=30, gt=0)


class Settings(Section):
    """Everything, frozen. Build it with `load`.

    `home` is the data folder of this store: what belongs to one store never lies in another's [C062].
    """

    home: Path
    store: str = "default"
    config: Path | None = None
    """The file that was read; None is `config.toml` in the home."""
    overridden: frozenset[str] = frozenset()
    """`section.key` of what the environment or the command line said, over the file."""
    memory: MemorySettings = MemorySettings()
    rollouts: RolloutSettings = RolloutSettings()
    extract: ExtractSettings = ExtractSettings()
    consolidate: ConsolidateSettings = ConsolidateSettings()
    model: ModelSettings = ModelSettings()
    budget: BudgetSettings = BudgetSettings()
    redact: RedactSettings = RedactSettings()
    inject: InjectSettings = InjectSettings()
    index: IndexSettings = IndexSettings()
    mcp: McpSettings = McpSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    service: ServiceSettings = ServiceSettings()
    state: StateSettings = StateSettings()
    prefect_url: str = Field(default="", repr=False)
    """`PREFECT_API_URL` of the environment: somebody's own Prefect server, used instead of ours."""
    prefect_auth: SecretStr = SecretStr("")
    """`PREFECT_API_AUTH_STRING`, what that server wants."""
    service_worker: str = ""
    """In a run's process that the service started: the service's worker, as `<pid>:<when it began>`."""
    own_session: bool = False
    """Whether this process belongs to a session that slowwave started itself: then nothing runs in it [Z068 O12]."""
    host_environment: dict[str, str] = Field(default_factory=dict)
    """The hosts' own variables (`CODEX_HOME`, ...) as they were at start, for discovery."""

    @property
    def config_file(self) -> Path:
        return self.config or self.home / "config.toml"


SECTIONS: tuple[str, ...] = tuple(
    "memory rollouts extract consolidate model budget redact inject index mcp schedule service state".split()
)
DEFAULT_STORE = "default"
HOST_VARIABLES = (
    "HOME",
    "CODEX_HOME",
    "CLAUDE_CONFIG_DIR",
    "PI_CODING_AGENT_DIR",
    "PI_CODING_AGENT_SESSION_DIR",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
)


def load(
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Mapping[str, object]] | None = None,
    home: Path | None = None,
) -> Settings:
    """Reads file and environment. `overrides` (section -> key -> value) come from the command line.

    `home` takes the place of `SLOWWAVE_HOME`, for a throw-away one.

    Raises SettingsError naming the key, the place it stood in and the nearest known key.
    """
    env = {name: text for name, text in (os.environ if environ is None else environ).items() if text}
    if home is not None:
        env["SLOWWAVE_HOME"] = str(home)
    home = home_directory(env)
    config = Path(env.get("SLOWWAVE_CONFIG") or home / "config.toml").expanduser().absolute()
    values: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
    for section, key, value in _from_file(config):
        values[section][key] = value
    overridden: set[str] = set()
    for section, key, raw, variable in _from_environment(env):
        values[section][key] = _parse(raw, section, key, variable)
        overridden.add(f"{section}.{key}")
    _keys_from_common_variables(env, values)
    for section, key, value in _from_overrides(overrides or {}):
        values[section][key] = value
        overridden.add(f"{section}.{key}")
    store = _store_name(env.get("SLOWWAVE_STORE") or DEFAULT_STORE)
    places = {
        "home": home if store == DEFAULT_STORE else home / "stores" / store,
        "store": store,
        "config": config,
        "overridden": frozenset(overridden),
        "prefect_url": env.get("PREFECT_API_URL", ""),
        "prefect_auth": SecretStr(env.get("PREFECT_API_AUTH_STRING", "")),
        "service_worker": env.get(WORKER_VARIABLE, ""),
        "own_session": bool(env.get(OWN_SESSION_VARIABLE)),
        "host_environment": {name: env[name] for name in HOST_VARIABLES if name in env},
    }
    try:
        return Settings(**places, **values)  # type: ignore[arg-type]
    except ValidationError as error:
        raise explain(error, config) from None


def enabled_on_disk(settings: Settings) -> bool:
    """Whether memory is still switched on, read afresh: the off switch holds before every write [X8].

    What the environment or the command line said stands above the file; a file that cannot be read keeps the
    value the run started with.
    """
    started = settings.memory.enabled and settings.memory.mode != "off"
    try:
        section = tomllib.loads(settings.config_file.read_text(encoding="utf-8")).get("memory", {})
    except (OSError, ValueError):
        return started
    if not isinstance(section, dict):
        return started
    enabled, mode = settings.memory.enabled, settings.memory.mode
    if "memory.enabled" not in settings.overridden:
        enabled = section.get("enabled", True) is not False
    if "memory.mode" not in settings.overridden:
        mode = section.get("mode", "short")
    return enabled and mode != "off"


def home_directory(env: Mapping[str, str]) -> Path:
    """The data directory: `SLOWWAVE_HOME`, else the platform's user data directory."""
    explicit = env.get("SLOWWAVE_HOME")
    if explicit:
        return Path(explicit).expanduser().absolute()
    if env.get("HOME") and env.get("HOME") != os.environ.get("HOME"):
        data = env.get("XDG_DATA_HOME")
        return (Path(data) if data else Path(env["HOME"]) / ".local" / "share") / "slowwave"
    return Path(platformdirs.user_data_dir("slowwave", appauthor=False))


def _store_name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", name):
        raise SettingsError(
            f"SLOWWAVE_STORE is {name[:60]!r}, which cannot name a store.",
            hint="Use up to 40 lower-case letters, digits and hyphens.",
        )
    return name


def _from_file(path: Path) -> Iterator[tuple[str, str, object]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({type(error).__name__}).", hint="Check the file.") from None
    yield from from_text(text, path)


def from_text(text: str, path: Path) -> Iterator[tuple[str, str, object]]:
    """Section, key and value of each setting of a file. Raises SettingsError for what is no setting."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.", hint="Mend the line it names.") from None
    for section, keys in data.items():
        if section not in SECTIONS:
            raise SettingsError(f"{path}: unknown section [{section}].", hint=_nearest(section, SECTIONS))
        if not isinstance(keys, dict):
            raise SettingsError(f"{path}: {section} must be a section, as in [{section}].")
        for key, value in keys.items():
            _check_key(section, key, where=str(path))
            yield section, key, value


def _from_overrides(overrides: Mapping[str, Mapping[str, object]]) -> Iterator[tuple[str, str, object]]:
    for section, keys in overrides.items():
        if section not in SECTIONS:
            raise SettingsError(f"Command line: unknown section {section}.", hint=_nearest(section, SECTIONS))
        for key, value in keys.items():
            _check_key(section, key, where="command line")
            yield section, key, value


def _from_environment(env: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    for variable, raw in env.items():
        if not variable.startswith("SLOWWAVE_"):
            continue
        name = variable.removeprefix("SLOWWAVE_")
        if name in RESERVED:
            continue
        section, _, key = name.lower().partition("_")
        if section not in SECTIONS or not key:
            known = [f"SLOWWAVE_{s}_{k}".upper() for s in SECTIONS for k in _keys(s)]
            raise SettingsError(f"Unknown variable {variable} in the environment.", hint=_nearest(variable, known))
        _check_key(section, key, where=f"environment variable {variable}")
        yield section, key, raw, variable


def _keys_from_common_variables(env: Mapping[str, str], values: dict[str, dict[str, object]]) -> None:
    """`OPENAI_API_KEY` and `OPENAI_BASE_URL` are honoured where our own settings are silent."""
    model = values["model"]
    key = env.get("SLOWWAVE_API_KEY") or env.get("OPENAI_API_KEY")
    if key and not model.get("api_key"):
        model["api_key"] = key
    if env.get("OPENAI_BASE_URL") and not model.get("base_url"):
        model["base_url"] = env["OPENAI_BASE_URL"]


def _section_type(section: str) -> type[BaseModel]:
    annotation = Settings.model_fields[section].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, BaseModel)
    return annotation


def _keys(section: str) -> list[str]:
    return list(_section_type(section).model_fields)


def _check_key(section: str, key: str, *, where: str) -> None:
    if key not in _keys(section):
        raise SettingsError(f"{where}: unknown setting {section}.{key}.", hint=_nearest(key, _keys(section)))


def _nearest(word: str, known: list[str] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.0)
    return f"Did you mean {close[0]}?" if close else ""


def _parse(raw: str, section: str, key: str, variable: str) -> Any:
    """Environment text to a value: TOML syntax where it parses, else the text; lists split at `os.pathsep`."""
    annotation = str(_section_type(section).model_fields[key].annotation)
    if "SecretStr" in annotation or annotation == "<class 'str'>":
        return raw
    if annotation.startswith("tuple") and not raw.lstrip().startswith("["):
        separator = os.pathsep if "Path" in annotation else ","
        return [part.strip() for part in raw.split(separator) if part.strip()]
    if raw.lower() in {"true", "false"}:
        return raw.lower() == "true"
    try:
        return tomllib.loads(f"v = {raw}")["v"]
    except tomllib.TOMLDecodeError:
        return raw


def explain(error: ValidationError, config: Path) -> SettingsError:
    errors = error.errors(include_url=False, include_input=False)
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = list(Price.model_fields) if name.startswith("budget.prices.") else []
        return SettingsError(f"Setting {name} is unknown.", hint=_nearest(str(first["loc"][-1]), known))
    return SettingsError(
        f"Setting {name} is not valid: {first['msg']}.", hint=f"Set it in {config} or the environment."
    )
