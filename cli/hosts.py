"""`slowwave hosts install|uninstall|status`."""

from __future__ import annotations

from pathlib import Path

import typer

from cli.output import ago, line, print_json
from hosts import hook_log, versions
from hosts import install as installing
from hosts.catalog import HOSTS
from hosts.edit import HostConfigError
from hosts.install import Change, Command, Host, Status
from hosts.install_claude import PLUGIN
from hosts.mcp_greeting import NAME as GREETING
from hosts.mcp_learn import learn
from memory.clock import SystemClock
from memory.errors import UsageError
from memory.settings import DEFAULT_STORE, Settings, home_directory, load
from recall.surroundings import Finding

WORDS = {
    "absent": "not found here",
    "not_installed": "not installed",
    "installed": "installed",
    "partly": "installed in part; `slowwave hosts install` completes it",
    "outdated": "installed by another or older slowwave; `slowwave hosts install` renews it",
    "broken": "its configuration cannot be read",
}


def install(names: list[str], *, as_json: bool) -> None:
    """Each host by itself: one whose files cannot be changed safely does not keep the others from being done."""
    settings = load()
    command = _command(settings)
    report: list[dict[str, object]] = []
    failed = served = False
    for host in _chosen(names, settings):
        try:
            changes = installing.install(host, _folder(host, settings), _records(settings), command)
        except HostConfigError as error:
            failed = True
            report.append({"host": host.name, "error": str(error)})
            if not as_json:
                line(f"{host.title}: not installed. {error}", style="red")
            continue
        state = _status(host, settings, command)
        served = served or host.name != "pi"
        report.append(_done(host, changes) | {"status": state.as_json()})
        if not as_json:
            _print_changes(host, changes, "already installed")
            _print_findings(state)
    if served:
        learn(settings.home)
    if report and not as_json and not failed:
        line(_what_sessions_get(settings))
    if as_json:
        print_json(report)
    if failed:
        raise typer.Exit(1)


def _what_sessions_get(settings: Settings) -> str:
    """One line for who has just installed and wonders why there is nothing, or only half, of what he expects."""
    mode = settings.memory.mode if settings.memory.enabled else "off"
    change = f"change it in {settings.config_file}"
    return {
        "off": f"Memory is switched off, so sessions get nothing: {change} (memory.mode, memory.enabled).",
        "short": f'Mode short: sessions get what you wrote down. memory.mode = "long" adds the summary; {change}.',
    }.get(mode, "Mode long: sessions get what you wrote down and the lines of the summary for their project.")


def uninstall(names: list[str], *, as_json: bool) -> None:
    """Without a name: from every host."""
    settings = load()
    report: list[dict[str, object]] = []
    failed = False
    for host in [_host(name) for name in names or list(HOSTS)]:  # a name that is none stops it before it begins
        try:
            changes = installing.uninstall(host, _folder(host, settings), _records(settings))
        except HostConfigError as error:
            failed = True
            report.append({"host": host.name, "error": str(error)})
            if not as_json:
                line(f"{host.title}: not uninstalled. {error}", style="red")
            continue
        report.append(_done(host, changes))
        if not as_json:
            _print_changes(host, changes, "nothing of slowwave was there")
    if not any((_records(settings) / f"{name}.json").exists() for name in HOSTS):
        (settings.home / GREETING).unlink(missing_ok=True)  # nobody is left who would ask the server
    if as_json:
        print_json(report)
    if failed:
        raise typer.Exit(1)


def status(names: list[str], *, as_json: bool) -> None:
    """What is installed where, and what stands in the way."""
    settings = load()
    command = _command(settings)
    found = [_status(_host(name), settings, command) for name in names or list(HOSTS)]
    called = {state.host: hook_log.last_hook(settings.home / hook_log.NAME, state.host) for state in found}
    if as_json:
        print_json([state.as_json() | {"last_hook": called[state.host]} for state in found])
        return
    now = SystemClock().now()
    for state in found:
        program = state.program
        version = f" {program.version or '(version unknown)'}" if program else ""
        line(f"{state.title}{version}: {WORDS[state.state]}", style="" if state.state == "installed" else "yellow")
        for path in state.files:
            line(f"  {path}")
        if state.files:
            line(f"  last called: {ago(called[state.host], now)}")
        _print_findings(state)


def doctor_findings(settings: Settings) -> list[Finding]:
    """What `slowwave doctor` says about each host that is here: installed, what stands in its way, its last call."""
    try:
        command = _command(settings)
    except HostConfigError as error:
        return [Finding("warning", "hooks", str(error), "no host can be given memory", error.hint.rstrip("."))]
    now, found = SystemClock().now(), []
    for host in HOSTS.values():
        state = _status(host, settings, command)
        if state.state == "absent":
            continue
        called = hook_log.last_hook(settings.home / hook_log.NAME, host.name)
        says = f"{host.title}: {WORDS[state.state]}"
        if state.state == "not_installed":
            found.append(Finding("ok", "hooks", says))
            continue
        if state.state == "installed":
            found.append(Finding("ok", "hooks", f"{says}; last called {ago(called, now)}"))
        else:
            means = "; ".join(one.text.rstrip(".") for one in state.findings) or "its sessions may get no memory"
            found.append(Finding("warning", "hooks", says, means, f"slowwave hosts install {host.name}"))
            continue
        found += [
            Finding(
                "warning",
                "hooks",
                f"{host.title}: {one.text.rstrip('.')}",
                "its sessions get no memory" if one.blocks else "",
            )
            for one in state.findings
        ]
    return found


def state_of(name: str, settings: Settings) -> Status:
    """What is known of one host. Raises UsageError for what is none."""
    return _status(_host(name), settings, _command(settings))


def files_of(name: str, settings: Settings) -> tuple[str, ...]:
    """Which files installing into a host may change or make; none where they cannot be read for certain."""
    host = _host(name)
    try:
        return tuple(str(one.path) for one in host.targets(_folder(host, settings), _command(settings)))
    except HostConfigError:
        return ()


def install_one(name: str, settings: Settings) -> list[str]:
    """Installs into one host; a line for each file that was changed."""
    host = _host(name)
    return _lines(installing.install(host, _folder(host, settings), _records(settings), _command(settings)))


def uninstall_one(name: str, settings: Settings) -> list[str]:
    """Takes it out of one host again; a line for each file that was changed."""
    host = _host(name)
    return _lines(installing.uninstall(host, _folder(host, settings), _records(settings)))


def plugin() -> None:
    """The path alone, for a command substitution."""
    line(str(PLUGIN))


def _chosen(names: list[str], settings: Settings) -> list[Host]:
    """The named hosts, else those that are here. Raises UsageError when there is none."""
    if names:
        return [_host(name) for name in names]
    found = [host for host in HOSTS.values() if versions.find(host.program) or _folder(host, settings).is_dir()]
    if not found:
        raise UsageError(
            "No host was found: neither codex, claude nor pi is on PATH, nor are their folders in your home.",
            hint="Install one first, or name it: slowwave hosts install codex.",
        )
    return found


def _host(name: str) -> Host:
    if name not in HOSTS:
        raise UsageError(f"{name[:40]!r} is no host.", hint=f"Hosts are {', '.join(HOSTS)}.")
    return HOSTS[name]


def _folder(host: Host, settings: Settings) -> Path:
    return host.folder(settings.host_environment)


def _records(settings: Settings) -> Path:
    return settings.home / "hosts"


def _command(settings: Settings) -> Command:
    """With the data folder in it where it is not the default one: the host will not have our variables."""
    base = settings.home if settings.store == DEFAULT_STORE else settings.home.parents[1]
    named = {} if base == home_directory(settings.host_environment) else {"SLOWWAVE_HOME": str(base)}
    return installing.hook_command(
        named | ({} if settings.store == DEFAULT_STORE else {"SLOWWAVE_STORE": settings.store})
    )


def _status(host: Host, settings: Settings, command: Command) -> Status:
    return installing.status(host, _folder(host, settings), versions.find(host.program), command)


def _done(host: Host, changes: list[Change]) -> dict[str, object]:
    files = [
        {"path": str(c.path), "what": c.what, "copy": str(c.copy) if c.copy else None, "note": c.note} for c in changes
    ]
    return {"host": host.name, "files": files, "approval": host.approval}


def _print_changes(host: Host, changes: list[Change], nothing: str) -> None:
    done = _lines(changes)
    line(f"{host.title}: {'done' if done else nothing}")
    for text in done:
        line(f"  {text}")


def _lines(changes: list[Change]) -> list[str]:
    done = [change for change in changes if change.what != "unchanged"]
    notes = [f" (before: {one.copy})" if one.copy else f" ({one.note})" if one.note else "" for one in done]
    return [f"{one.what} {one.path}{note}" for one, note in zip(done, notes, strict=True)]


def _print_findings(state: Status) -> None:
    for finding in state.findings:
        line(f"  {finding.text}", style="yellow" if finding.blocks else "")
