"""Settings: what holds and where it comes from, changed in config.toml; hosts, doctor, and clearing long memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from fastapi.responses import Response

from dashboard import options
from dashboard.desk import AnyLook, AnyVisitor, Form, Look, Visitor
from dashboard.doctoring import mend
from dashboard.errors import status_of
from dashboard.options import GROUPS
from dashboard.ports import HostState
from dashboard.probe import probe
from dashboard.running import money
from memory import models
from memory.errors import (
    InputsChangedError,
    SettingsError,
    SlowwaveError,
    StateBusyError,
    UnknownReference,
    UsageError,
)
from memory.settings import Settings
from recall.doctor import diagnose

router = APIRouter()
Group = Annotated[Literal["memory", "model", "windows", "sessions", "schedule", "budget", "redact", "names"], Path()]
HostName = Annotated[str, Path(pattern=r"^[a-z]{1,20}$")]
NAMES = {"codex": "Codex CLI", "claude": "Claude Code", "pi": "Pi"}
REFUSED = (SettingsError, UsageError, InputsChangedError, StateBusyError)
"""What leaves the file as it is: the page comes back with what was typed."""
ORDER = {"error": 0, "warning": 1, "ok": 2}


@router.get("/settings")
def settings(visitor: AnyVisitor) -> Response:
    return _page(visitor)


@router.post("/settings/groups/{group}")
def save(visitor: AnyVisitor, group: Group, form: Form) -> Response:
    found = options.known(visitor.desk.load())
    try:
        changes = options.asked(found, group, form.fields)
        changed = options.apply(found, changes, mark=form.get("mark"))
    except REFUSED as error:
        return _page(visitor, group=group, fields=form.fields, error=error)
    if not changed:
        return _to_group(visitor, group, "settings.nothing_changed")
    names = ", ".join(".".join(key) for key in changes)
    said = "settings.saved_start" if group == "names" else "settings.saved"
    return _to_group(visitor, group, said, names=names)


@router.post("/settings/prices")
def save_price(visitor: AnyVisitor, form: Form) -> Response:
    found = options.known(visitor.desk.load())
    try:
        key, value = options.price(form.fields)
        changed = options.apply(found, {key: value}, mark=form.get("mark"))
    except REFUSED as error:
        return _page(visitor, group="prices", fields=form.fields, error=error)
    return _to_group(
        visitor, "prices", "settings.saved" if changed else "settings.nothing_changed", names=".".join(key)
    )


@router.post("/settings/test-model")
def test_model(look: AnyLook, form: Form) -> Response:
    said = []
    for role in models.ROLES:
        try:
            answered = probe(look.settings, look.store, look.desk.clock, role)
        except SlowwaveError as error:
            return _to_group(look, "model", "settings.no_answer", stage=look.word("stage", role), says=str(error))
        if not answered.network:
            said.append(look.t("settings.built_in", stage=look.word("stage", role), model=answered.model))
        else:
            said.append(
                look.t(
                    "settings.answered",
                    stage=look.word("stage", role),
                    model=answered.model,
                    seconds=f"{answered.seconds:.1f}",
                    tokens=answered.spend.tokens,
                    money=money(look, None if answered.spend.unpriced else answered.spend.money),
                )
            )
        if look.settings.model.extract_model() == look.settings.model.consolidate_model():
            break
    return _to_group(look, "model", "settings.tested", says=" ".join(said))


@router.get("/settings/all")
def everything(visitor: AnyVisitor) -> Response:
    found = options.known(visitor.desk.load())
    switch = {"yes": visitor.t("settings.on"), "no": visitor.t("settings.off")}

    def told(text: str) -> object:
        if text.isdecimal() and len(text) > 4:
            return f"{int(text):,}"
        return switch.get(text) or visitor.shown(text or "–")

    return visitor.page(
        "settings_all.html",
        values=found.every(),
        told=told,
        path_of_file=found.settings.config_file,
        exists=bool(found.text),
    )


# -- hosts --------------------------------------------------------------------------------------------


@router.get("/settings/hosts")
def hosts(visitor: AnyVisitor) -> Response:
    return visitor.page("hosts.html", hosts=visitor.desk.hosts.states(), names=NAMES)


@router.get("/settings/hosts/{host}/{deed}")
def ask_host(visitor: AnyVisitor, host: HostName, deed: Literal["install", "uninstall"]) -> Response:
    return visitor.page("host.html", host=host_state(visitor, host), deed=deed, names=NAMES)


@router.post("/settings/hosts/{host}/{deed}")
def do_host(visitor: AnyVisitor, host: HostName, deed: Literal["install", "uninstall"], form: Form) -> Response:
    state = host_state(visitor, host)
    port = visitor.desk.hosts
    try:
        lines = port.install(state.host) if deed == "install" else port.uninstall(state.host)
    except SlowwaveError as error:
        return visitor.redirect("/settings/hosts", "settings.host_refused", host=NAMES.get(host, host), says=str(error))
    return visitor.redirect(
        "/settings/hosts", "settings.host_done", host=NAMES.get(host, host), says=_deeds(visitor, lines)
    )


def _deeds(visitor: Visitor, lines: Sequence[str]) -> str:
    """What was done to which file; each line begins with a word for the deed."""
    told = []
    for line in lines:
        deed, _, rest = line.partition(" ")
        told.append(f"{visitor.word('deed', deed)} {rest}" if rest else line)
    return "; ".join(told) or visitor.t("settings.host_same")


def host_state(visitor: Visitor, name: str) -> HostState:
    """Raises UnknownReference."""
    for state in visitor.desk.hosts.states():
        if state.host == name:
            return state
    raise UnknownReference("There is no such host.", hint="The list has all of them.")


# -- doctor -------------------------------------------------------------------------------------------


@router.get("/settings/doctor")
def doctor(visitor: AnyVisitor) -> Response:
    found = diagnose(visitor.desk.load(), visitor.desk.clock)
    return visitor.page("doctor.html", findings=sorted(found, key=lambda one: ORDER[one.level]), mended=None, error="")


@router.post("/settings/doctor")
def fix(visitor: AnyVisitor, form: Form) -> Response:
    loaded = visitor.desk.load()
    done, error = mend(loaded, visitor.desk.clock)
    found = diagnose(loaded, visitor.desk.clock)
    return visitor.page(
        "doctor.html",
        findings=sorted(found, key=lambda one: ORDER[one.level]),
        mended=done,
        error=str(error) if error is not None else "",
    )


# -- clear --------------------------------------------------------------------------------------------


@router.get("/settings/clear")
def ask_clear(look: AnyLook) -> Response:
    return _clear_page(look)


@router.post("/settings/clear")
def clear(look: AnyLook, form: Form) -> Response:
    if form.get("name").strip() != look.settings.store:
        return _clear_page(look, refused=True)
    report = look.long_memory().clear()
    return look.page("cleared.html", report=report)


def _clear_page(look: Look, *, refused: bool = False) -> Response:
    preview = look.long_memory(recover=False).preview_clear()
    return look.page(
        "clear.html", status=400 if refused else 200, preview=preview, store=look.settings.store, refused=refused
    )


# -- the page -----------------------------------------------------------------------------------------


def _page(
    visitor: Visitor, *, group: str = "", fields: Mapping[str, str] | None = None, error: SlowwaveError | None = None
) -> Response:
    """What was typed comes back with what is wrong about it."""
    found = options.known(visitor.desk.load())
    values = {option.name: found.value(option.section, option.key) for part in GROUPS.values() for option in part}
    return visitor.page(
        "settings.html",
        status=200 if error is None else status_of(error),
        groups=GROUPS,
        values=values,
        mark=found.mark,
        file=found.settings.config_file,
        exists=bool(found.text),
        store=found.settings.store,
        model=models.describe(found.settings),
        notice=_notice(found.settings),
        prices=found.settings.budget.prices,
        prices_from=found.value("budget", "prices"),
        failed=group,
        typed=fields or {},
        sent=options.sent,
        error=str(error) if error is not None else "",
    )


def _notice(settings: Settings) -> str:
    try:
        return models.notice(settings)
    except SettingsError:
        return ""  # what is missing is told where the model is named


def _to_group(visitor: Visitor, group: str, said: str, **values: object) -> Response:
    """To the page, at the group; the mark stands before the fragment."""
    response = visitor.redirect("/settings", said, **values)
    response.headers["location"] += f"#{group}"
    return response
