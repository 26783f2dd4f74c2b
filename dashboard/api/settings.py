"""Settings, hosts, doctor and clear for programs."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from dashboard import options
from dashboard.api import CHANGING
from dashboard.api.models import Answer, Check
from dashboard.desk import AnyLook, AnyVisitor
from dashboard.doctoring import mend
from dashboard.pages.settings import host_state
from dashboard.probe import probe
from dashboard.shown import plain
from memory.errors import UsageError
from memory.models import Role
from recall.doctor import diagnose

router = APIRouter(tags=["settings"])
HostName = Annotated[str, Path(pattern=r"^[a-z]{1,20}$")]


class Setting(Answer):
    """A setting as it holds. `origin` is `environment`, `file` or `default`; a secret's `text` is empty and `is_set`
    tells alone; `variable` is what stands above the file; `entries` are those of a list."""

    name: str
    text: str
    is_set: bool
    origin: str
    default: str
    secret: bool
    variable: str
    editable: bool
    entries: list[str]


class AllSettings(Answer):
    """Every setting, the file's path, and the mark of the file as it stands: send it with a change."""

    file: str
    mark: str
    settings: list[Setting]


class Change(BaseModel):
    """New values by name (`extract.idle_hours`); null takes a setting out of the file. `mark` is that of the file the
    change was made for."""

    model_config = ConfigDict(extra="forbid")

    mark: str = Field(max_length=64)
    values: dict[str, bool | int | float | str | list[str] | None] = Field(max_length=60)


class ValueToCheck(BaseModel):
    """A setting's name and what is typed into its field; an entry on each line for a list."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=80)
    text: str = Field(max_length=20_000)


class Changed(Answer):
    """Whether the file was written."""

    changed: bool


class Tested(Answer):
    """A model answered; `network` is false for the built-in engine."""

    model: str
    network: bool
    seconds: float
    tokens: int
    money: float | None


class HostSetting(Answer):
    """A coding agent of this machine."""

    host: str
    found: bool
    version: str
    installed: bool
    says: str
    files: list[str]


class Lines(Answer):
    """What was done, a line for each thing."""

    lines: list[str]


class FindingAnswer(Answer):
    """A finding of the doctor: `level` is `ok`, `warning` or `error`."""

    level: str
    check: str
    says: str
    means: str
    mend: str


class Preview(Answer):
    """What a clear takes away and what it leaves."""

    store: str
    summary: bool
    sources: int
    notes: int
    versions: int
    files: int
    bytes: int
    sessions_kept: int


class Confirmation(BaseModel):
    """The name of the store, typed by whoever wants it cleared."""

    model_config = ConfigDict(extra="forbid")

    store: str = Field(max_length=100)


class Cleared(Answer):
    """The proof: what is left of the old generation, counted after the fact."""

    clean: bool
    generation: str
    files_left: int
    rows_left: int
    versions_left: int
    index_left: int
    set_aside_left: int
    old_folders_left: int
    unscrubbed: bool


@router.get("/settings")
def read_settings(visitor: AnyVisitor) -> AllSettings:
    """What holds, and where it comes from."""
    found = options.known(visitor.desk.load())
    return AllSettings(
        file=str(found.settings.config_file),
        mark=found.mark,
        settings=[
            Setting(
                name=one.name,
                text=plain(one.text, visitor.redactor),
                is_set=one.is_set,
                origin=one.origin,
                default=one.default,
                secret=one.secret,
                variable=one.variable,
                editable=one.name in options.OPTIONS and one.origin != "environment",
                entries=[plain(entry, visitor.redactor) for entry in one.entries],
            )
            for one in found.every()
        ],
    )


@router.patch("/settings", dependencies=CHANGING)
def change_settings(visitor: AnyVisitor, change: Change) -> Changed:
    """Writes the values into config.toml, all or none."""
    found = options.known(visitor.desk.load())
    changes = dict(options.typed(name, value, found) for name, value in change.values.items())
    return Changed(changed=options.apply(found, changes, mark=change.mark))


@router.post("/checks/setting", tags=["checks"], dependencies=CHANGING)
def check_setting(visitor: AnyVisitor, value: ValueToCheck) -> Check:
    """Whether a value could be written; the other settings as they are."""
    complaint = options.complaint(options.known(visitor.desk.load()), value.name, value.text)
    if complaint:
        return Check(ok=False, says=plain(visitor.own(complaint), visitor.redactor))
    missing = options.missing_folders(value.name, value.text)
    if missing:
        return Check(ok=True, says=visitor.told("settings.no_folder", paths=", ".join(missing)), warns=True)
    return Check(ok=True, says="")


@router.post("/settings/test-model/{role}", dependencies=CHANGING)
def test_model(look: AnyLook, role: Role) -> Tested:
    """One tiny call to the model of a stage."""
    answered = probe(look.settings, look.store, look.desk.clock, role)
    spend = answered.spend
    return Tested(
        model=answered.model,
        network=answered.network,
        seconds=round(answered.seconds, 3),
        tokens=spend.tokens,
        money=None if spend.unpriced else spend.money,
    )


@router.get("/hosts")
def read_hosts(visitor: AnyVisitor) -> list[HostSetting]:
    """The coding agents of this machine."""
    return [HostSetting.filled(one) for one in visitor.desk.hosts.states()]


@router.post("/hosts/{host}/{deed}", dependencies=CHANGING)
def set_host_up(visitor: AnyVisitor, host: HostName, deed: Literal["install", "uninstall"]) -> Lines:
    """Gives a host memory, or takes it out again."""
    state, port = host_state(visitor, host), visitor.desk.hosts
    return Lines(lines=port.install(state.host) if deed == "install" else port.uninstall(state.host))


@router.get("/doctor")
def read_findings(visitor: AnyVisitor) -> list[FindingAnswer]:
    """Looks at everything kept on disk, changes nothing."""
    return [FindingAnswer.filled(one) for one in diagnose(visitor.desk.load(), visitor.desk.clock)]


@router.post("/doctor/fix", dependencies=CHANGING)
def fix(visitor: AnyVisitor) -> Lines:
    """The safe mends; what is taken away is set aside."""
    done, error = mend(visitor.desk.load(), visitor.desk.clock)
    if error is not None:
        raise error
    return Lines(lines=[f"{one.check}: {one.did}" for one in done])


@router.get("/clear")
def preview_clear(look: AnyLook) -> Preview:
    """What a clear would take away."""
    found = look.long_memory(recover=False).preview_clear()
    return Preview.filled(found, store=look.settings.store)


@router.post("/clear", dependencies=CHANGING)
def clear(look: AnyLook, confirmation: Confirmation) -> Cleared:
    """Clears long memory for good, when the store's name was typed."""
    if confirmation.store != look.settings.store:
        raise UsageError("That is not the name of this store.", hint="Nothing was cleared.")
    report = look.long_memory().clear()
    return Cleared.filled(report)
