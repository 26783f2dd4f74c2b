"""Codex CLI: hooks in `hooks.json`, or in `config.toml` where the user keeps theirs, and a joined `notify`.

Codex runs a hook only after its user approved it, and knows it by file, event and position: our groups come last, their
text is fixed, and the approval is never written for the user. Codex itself rewrites `config.toml` (trusted folders,
approved hooks); `hooks.json` it leaves alone, which is why ours go there.

The memory tools are an MCP server in `config.toml`, the one place Codex reads servers from; what the user or Codex adds
to its table (a switch, an approval of a tool) stays there when it is renewed, and a server of the user's own by the
same name is left alone.

`notify` needs no approval, but Codex passes it the prompt on the command line, where other users of the machine may see
it. So none is set where there was none; where the user has one, ours runs first and then becomes theirs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hosts import edit
from hosts.edit import HostConfigError, Json, Statement
from hosts.install import HOOK, NOTIFY, SERVER, Command, Finding, Target
from hosts.install_claude import holds as holds_hooks
from hosts.notify import CHAIN

EVENTS: dict[str, tuple[str, int]] = {
    "SessionStart": ("", 5),
    "UserPromptSubmit": ("", 5),
    "PostToolUse": (r"^(Bash)$", 5),
    "Stop": ("", 5),
    "SessionEnd": ("", 3),
}
"""Event -> matcher and time-out in seconds; Codex allows SessionEnd three."""

NOT_OURS = "{path} has a server named slowwave of your own, which stays: Codex gets the memory tools it offers."
BY_HAND = "{path} has its MCP servers in a form that nothing can be added to: add slowwave there (docs/mcp.md)."

PASSED = [
    *("SLOWWAVE_HOME", "SLOWWAVE_STORE", "SLOWWAVE_CONFIG", "SLOWWAVE_MEMORY_MODE", "SLOWWAVE_MEMORY_ENABLED"),
    *("SLOWWAVE_OWN_SESSION", "XDG_DATA_HOME"),
]
"""Variables Codex passes on to the server, which gets few by itself: where memory lies, and whether it is on."""

CONTEXT_TOKENS = 2_500
"""What Codex takes from a hook before it puts the rest into a file; its own default, written out so that it stays."""


class Codex:
    name = "codex"
    title = "Codex CLI"
    program = "codex"
    approval = (
        "Codex runs these hooks once you approved them: start `codex`, which lists new hooks (or type /hooks), and "
        "trust those that start slowwave-hook. Until then `codex exec` skips them without a word."
    )

    def folder(self, environment: Mapping[str, str]) -> Path:
        said = environment.get("CODEX_HOME")
        return Path(said).expanduser() if said else Path(environment.get("HOME", "~")).expanduser() / ".codex"

    def targets(self, folder: Path, command: Command) -> list[Target]:
        config, hooks = folder / "config.toml", folder / "hooks.json"
        inline = self._inline(folder, command)
        more = server_extras(edit.read(config).text, config)
        return [
            Target(
                config,
                lambda text: add_server(add_to_config(text, command, config, hooks=inline), command, config, more),
                lambda text, original: strip_config(text, original or "", config),
                lambda text: _holds_config(text, config),
                lambda text: edit.load_toml(text, config),
            ),
            Target(
                hooks,
                lambda text: text if inline else edit.add_hooks(text, groups(command), hooks),
                lambda text, original: edit.strip_hooks(text, command.is_ours, original, hooks, tuple(EVENTS)),
                lambda text: holds_hooks(text, hooks),
            ),
        ]

    def _inline(self, folder: Path, command: Command) -> bool:
        """Whether ours belong into config.toml: the user's are there, none are in hooks.json, and they can be appended
        (Codex warns at every start when one folder has both)."""
        config, hooks = folder / "config.toml", folder / "hooks.json"
        text = strip_config(edit.read(config).text, "", config)
        data = edit.load_toml(text, config).get("hooks")
        if not isinstance(data, dict) or not data.keys() - {"state"}:
            return False
        theirs = edit.strip_hooks(edit.read(hooks).text, command.is_ours, "", hooks, tuple(EVENTS))
        if any(True for _ in edit.handlers(edit.load_json(theirs, hooks))):
            return False
        try:
            add_to_config(text, command, config, hooks=True)
        except HostConfigError:
            return False
        return True

    def findings(self, folder: Path) -> list[Finding]:
        path = folder / "config.toml"
        text = edit.read(path).text
        data = edit.load_toml(text, path)
        features = data.get("features")
        found = []
        if isinstance(features, dict) and (features.get("hooks") is False or features.get("codex_hooks") is False):
            found.append(Finding("hooks_off", f"Hooks are switched off under [features] in {path}.", blocks=True))
        known = _dict(_dict(data.get("hooks")).get("state"))
        hooks = folder / "hooks.json"
        keys = [(edit.read(path).real, place) for place in positions(text, path)]
        keys += [(edit.read(hooks).real, place) for place in _positions_in_json(edit.read(hooks).text, hooks)]
        approvals = {_key(name): _dict(value) for name, value in known.items()}
        states = [approvals.get(key, {}) for key in keys]
        if untrusted := sum(1 for state in states if not state.get("trusted_hash")):
            text = f"Installed, not trusted: {untrusted} of {len(keys)} hooks wait for your approval. {self.approval}"
            found.append(Finding("not_trusted", text, blocks=untrusted == len(keys)))
        if switched := sum(1 for state in states if state.get("enabled") is False):
            found.append(Finding("hooks_off", f"{switched} of {len(keys)} hooks are switched off in Codex (/hooks)."))
        return found + _server_findings(edit.read(path).text, path)


def groups(command: Command) -> dict[str, Json]:
    """Event -> group, as hooks.json wants them."""
    found: dict[str, Json] = {}
    for event, (matcher, seconds) in EVENTS.items():
        handler: Json = {"type": "command", "command": command.shell("codex"), "timeout": seconds}
        if event in ("SessionStart", "UserPromptSubmit"):
            handler["additionalContextLimit"] = CONTEXT_TOKENS
        found[event] = ({"matcher": matcher} if matcher else {}) | {"hooks": [handler]}
    return found


# -- config.toml ------------------------------------------------------------------------------------------------------


def add_to_config(text: str, command: Command, path: Path, *, hooks: bool) -> str:
    """Joins an existing `notify`; with `hooks`, appends ours at the end. Raises HostConfigError."""
    data = edit.load_toml(text, path)
    wanted = dict(data)
    notify = data.get("notify")
    result = text
    if notify:
        if not isinstance(notify, list) or not all(isinstance(item, str) for item in notify):
            raise HostConfigError(f"{path}: notify must be a list of strings; nothing was changed.")
        wanted["notify"] = command.notify(notify)
        result = _set_notify(result, _notify_line(wanted["notify"]), commented=True)
    if hooks:
        newline = "\r\n" if "\r\n" in text else "\n"
        joint = "" if not result or result.endswith("\n") else newline
        result += joint + newline + newline.join(_tables(command)) + newline
        mine = {event: [group] for event, group in groups(command).items()}
        theirs = _dict(data.get("hooks"))
        wanted["hooks"] = {**theirs, **{event: [*theirs.get(event, []), *mine[event]] for event in mine}}
    if edit.load_toml(result, path) != wanted:
        raise HostConfigError(f"{path} has a form that cannot be changed safely; nothing was changed.")
    return result


def add_server(text: str, command: Command, path: Path, more: str = "") -> str:
    """Appends the server of memory tools, with `more` in its table; as it was where that cannot be done, or where the
    user has a server of that name."""
    data = edit.load_toml(text, path)
    servers = data.get("mcp_servers", {})
    if not isinstance(servers, dict) or SERVER in servers:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    joint = newline if text.endswith(("\n", "")) and text else ""
    program, *arguments = command.server()
    lines = [
        f"[mcp_servers.{SERVER}]",
        f"command = {edit.toml_string(program)}",
        f"args = {edit.toml_array(arguments)}",
        f"env_vars = {edit.toml_array(PASSED)}",
    ]
    result = text + ("" if not text or text.endswith("\n") else newline) + joint + newline.join(lines) + newline + more
    entry = {"command": program, "args": arguments, "env_vars": PASSED}
    try:
        made = edit.load_toml(result, path)
    except HostConfigError:  # servers in an inline table cannot be added to
        return text
    others = {**made, "mcp_servers": {n: s for n, s in made["mcp_servers"].items() if n != SERVER}}
    added = {key: made["mcp_servers"][SERVER].get(key) for key in entry}
    return result if added == entry and others == {**data, "mcp_servers": servers} else text


def server_extras(text: str, path: Path) -> str:
    """What stands in the table of our server beside what we wrote, as it is written."""
    if not _our_server(edit.load_toml(text, path)):
        return ""
    parts = edit.statements(text)
    kept = []
    for index in _server_parts(parts):
        part = parts[index]
        ours = len(part.table) == 2 and (part.header or part.data.keys() & {"command", "args", "env_vars"})
        if not ours and not (part.blank and not text[part.start : part.end].strip()):
            kept.append(text[part.start : part.end])
    return "".join(kept)


def _our_server(data: Json) -> bool:
    return Command.is_our_server(_dict(data.get("mcp_servers")).get(SERVER))


def _server_parts(parts: list[Statement]) -> list[int]:
    """The statements of our server's table and the tables in it; blank lines and comments behind it are not its own."""
    found = [i for i, part in enumerate(parts) if part.table[:2] == ("mcp_servers", SERVER)]
    last = max((i for i in found if not parts[i].blank), default=-1)
    return [i for i in found if i <= last]


def _strip_server(text: str, path: Path) -> str:
    """Removes our server's table, and the blank line before it where it is the last thing in the file."""
    if not _our_server(edit.load_toml(text, path)):
        return text
    parts = edit.statements(text)
    gone = set(_server_parts(parts))
    first = min(gone)
    if first and parts[first - 1].blank and not text[parts[first - 1].start : parts[first - 1].end].strip():
        gone.add(first - 1)
    return "".join(text[part.start : part.end] for i, part in enumerate(parts) if i not in gone)


def _server_findings(text: str, path: Path) -> list[Finding]:
    entry = _dict(edit.load_toml(text, path).get("mcp_servers")).get(SERVER)
    if entry is None:
        addable = add_server(text, Command((HOOK,)), path) != text
        return [] if addable else [Finding("mcp_by_hand", BY_HAND.format(path=path))]
    if not Command.is_our_server(entry):
        return [Finding("mcp_taken", NOT_OURS.format(path=path))]
    if _dict(entry).get("enabled") is False:
        return [Finding("mcp_off", f"The memory tools are switched off by `enabled = false` in {path}.")]
    return []


def _holds_config(text: str, path: Path) -> bool:
    data = edit.load_toml(text, path)
    return bool(positions(text, path)) or _our_notify(data) is not None or _our_server(data)


def _tables(command: Command) -> list[str]:
    lines: list[str] = []
    for event, group in groups(command).items():
        lines.append(f"[[hooks.{event}]]")
        lines += [f"matcher = {edit.toml_string(group['matcher'])}"] if "matcher" in group else []
        lines.append(f"[[hooks.{event}.hooks]]")
        for key, value in group["hooks"][0].items():
            lines.append(f"{key} = {edit.toml_string(value) if isinstance(value, str) else value}")
    return lines


def strip_config(text: str, original: str, path: Path) -> str:
    """Takes our hooks and our part of `notify` out; the user's program comes back as it was written, where known."""
    data = edit.load_toml(text, path)
    theirs = _our_notify(data)
    if theirs is not None:
        former = next((s for s in edit.statements(original) if "notify" in s.data and not s.table), None)
        line = original[former.start : former.end] if former and former.data["notify"] == theirs else ""
        text = (
            _set_notify(text, line) if line or not theirs else _set_notify(text, _notify_line(theirs), commented=True)
        )
    return _strip_tables(_strip_server(text, path))


def _our_notify(data: Json) -> list[str] | None:
    """The user's own program behind ours; None where `notify` is not ours."""
    notify = data.get("notify")
    if not isinstance(notify, list) or not any(str(x).endswith(f"/{NOTIFY}") for x in notify):
        return None
    return list(notify[notify.index(CHAIN) + 1 :]) if CHAIN in notify else []


def _notify_line(program: list[str]) -> str:
    return f"notify = {edit.toml_array(program)}"


def _set_notify(text: str, line: str, *, commented: bool = False) -> str:
    """With `line` in place of the statement; `commented`: what the user wrote behind the value stays behind it."""
    for statement in edit.statements(text):
        if "notify" in statement.data and not statement.table:
            old = text[statement.start : statement.end]
            end = re.search(r"\r?\n?\Z", old)
            tail = end.group() if end and line and not line.endswith("\n") else ""
            comment = edit.comment_behind(old, statement.data) if commented else ""
            return text[: statement.start] + line + comment + tail + text[statement.end :]
    return text


def _strip_tables(text: str) -> str:
    """Removes the `[[hooks.*]]` tables that hold our handlers alone, and our handlers from tables that hold others."""
    parts = edit.statements(text)
    cuts: list[tuple[int, int]] = []
    for group in _groups(parts):
        blocks = _blocks(parts, group)
        ours = [block for block in blocks if _is_ours(parts, block)]
        cuts += [group] if ours and len(ours) == len(blocks) else ours
    for first, end in reversed(cuts):
        while parts[end - 1].blank:
            end -= 1
        if (first, end) == cuts[0] or first == cuts[0][0]:
            blank = first > 0 and not text[parts[first - 1].start : parts[first - 1].end].strip()
            first -= 1 if blank else 0
        text = text[: parts[first].start] + text[parts[end - 1].end :]
    return text


def _groups(parts: list[Statement]) -> list[tuple[int, int]]:
    """The statements of every `[[hooks.Event]]` and what belongs to it, as (first, end)."""
    found: list[tuple[int, int]] = []
    open_at: int | None = None
    for index, part in enumerate([*parts, Statement(0, 0, {}, True, ())]):
        if not part.header:
            continue
        begins = len(part.table) == 2 and part.table[0] == "hooks" and part.table[1] != "state"
        inside = open_at is not None and part.table[:2] == parts[open_at].table and len(part.table) > 2
        if inside:
            continue
        if open_at is not None:
            found.append((open_at, index))
        open_at = index if begins else None
    return found


def _blocks(parts: list[Statement], group: tuple[int, int]) -> list[tuple[int, int]]:
    """The handlers of a group, as (first, end)."""
    starts = [i for i in range(*group) if parts[i].header and len(parts[i].table) == 3 and parts[i].table[2] == "hooks"]
    return list(zip(starts, [*starts[1:], group[1]], strict=True))


def _is_ours(parts: list[Statement], block: tuple[int, int]) -> bool:
    commands = [part.data.get("command") for part in parts[block[0] : block[1]] if not part.header]
    return any(isinstance(command, str) and Command.is_ours(command) for command in commands)


# -- Codex's names for our hooks ---------------------------------------------------------------------------------------


def positions(text: str, path: Path) -> list[str]:
    """`event:group:handler` of each of our handlers in config.toml."""
    return [
        f"{_snake(event)}:{group}:{index}"
        for event, group, index, handler in edit.handlers(edit.load_toml(text, path))
        if Command.is_ours(handler["command"])
    ]


def _positions_in_json(text: str, path: Path) -> list[str]:
    return [
        f"{_snake(event)}:{group}:{index}"
        for event, group, index, handler in edit.handlers(edit.load_json(text, path))
        if Command.is_ours(handler["command"])
    ]


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def _key(name: str) -> tuple[Path, str]:
    """`file:event:group:handler` with the file as its links end, whichever way Codex reached it."""
    file, *place = name.rsplit(":", 3)
    return Path(os.path.realpath(file)), ":".join(place)


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
