"""Claude Code: hooks in the user's `settings.json`, the memory tools as an MCP server in `.claude.json`, the one file
Claude Code reads servers of a user from, and the command `/remember` in `commands/remember.md`.

`.claude.json` holds Claude Code's own state and may hold keys: no copy of it is kept, only what we put where.

The same hooks and the same command as a plugin lie in `claude_plugin/`; both at once would deliver every event twice,
so `status` says when it finds both. A `remember.md` of the user's own is left to them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from hosts import edit
from hosts.install import SERVER, Command, Finding, Target

PLUGIN = Path(__file__).parent / "claude_plugin"
MARK = "# slowwave: written by `slowwave hosts install`; without this line the file is yours and left alone"

EVENTS: dict[str, tuple[str, int]] = {
    "SessionStart": ("", 5),
    "UserPromptSubmit": ("", 5),
    "PostToolUse": (r"^(Read|Grep|Bash)$", 5),
    "Stop": ("", 5),
    "SessionEnd": ("", 3),
}
"""Event -> matcher and time-out in seconds. The program answers in milliseconds; the time-out is for a stuck disk."""


class Claude:
    name = "claude"
    title = "Claude Code"
    program = "claude"
    approval = (
        "Claude Code runs these hooks in folders you trust; in a new folder it asks once whether you do. "
        "/hooks lists them."
    )

    def folder(self, environment: Mapping[str, str]) -> Path:
        said = environment.get("CLAUDE_CONFIG_DIR")
        return Path(said).expanduser() if said else Path(environment.get("HOME", "~")).expanduser() / ".claude"

    def targets(self, folder: Path, command: Command) -> list[Target]:
        path = folder / "settings.json"
        remember = folder / "commands" / "remember.md"
        servers = servers_file(folder)
        return [
            Target(
                path,
                lambda text: edit.add_hooks(text, groups(command), path),
                lambda text, original: edit.strip_hooks(text, command.is_ours, original, path, tuple(EVENTS)),
                lambda text: holds(text, path),
            ),
            Target(
                remember,
                lambda text: text or remember_command(command),
                lambda text, original: "" if is_remember(text) else text,
                is_remember,
            ),
            Target(
                servers,
                lambda text: add_server(text, command, servers),
                lambda text, original: strip_server(text, original, servers),
                lambda text: holds_server(text, servers),
                lambda text: edit.load_json(text, servers),
                private=True,
            ),
        ]

    def findings(self, folder: Path) -> list[Finding]:
        path = folder / "settings.json"
        data = edit.load_json(edit.read(path).text, path)
        found = []
        if data.get("disableAllHooks") is True:
            found.append(Finding("hooks_off", f'Hooks are switched off by "disableAllHooks" in {path}.', blocks=True))
        remember = folder / "commands" / "remember.md"
        if (text := edit.read(remember).text) and not is_remember(text):
            found.append(Finding("remember_taken", f"{remember} is yours, so /remember is not slowwave's."))
        plugins = data.get("enabledPlugins")
        if isinstance(plugins, dict) and any(n.partition("@")[0] == "slowwave" and on for n, on in plugins.items()):
            found.append(
                Finding("twice", "The plugin slowwave is enabled too: keep one of them, or every hook runs twice.")
            )
        servers = servers_file(folder)
        entry = _servers(edit.load_json(edit.read(servers).text, servers), servers).get(SERVER)
        if entry is not None and not Command.is_our_server(entry):
            says = (
                f"{servers} has a server named slowwave of your own, which stays: Claude Code gets the tools it offers."
            )
            found.append(Finding("mcp_taken", says))
        return found


def groups(command: Command) -> dict[str, edit.Json]:
    """Event -> group, as the file wants them."""
    found: dict[str, edit.Json] = {}
    for event, (matcher, seconds) in EVENTS.items():
        handler = {"type": "command", "command": command.shell("claude"), "timeout": seconds}
        found[event] = ({"matcher": matcher} if matcher else {}) | {"hooks": [handler]}
    return found


def remember_command(command: Command) -> str:
    """The plugin's `/remember`, calling this installation's own program."""
    text = (PLUGIN / "commands" / "remember.md").read_text("utf-8")
    return (
        text.replace("---\n", f"---\n{MARK}\n", 1)
        .replace("slowwave remember:", f"{shell(command)}:")
        .replace("    slowwave remember ", f"    {shell(command)} ")
    )


def shell(command: Command) -> str:
    """This installation's `slowwave remember` as a shell takes it."""
    return shlex.join(command.remember())


def is_remember(text: str) -> bool:
    """Whether a `remember.md` is the one we wrote."""
    return MARK in text.splitlines()


def holds(text: str, path: Path) -> bool:
    """Whether one of our handlers is in a hooks file."""
    return any(Command.is_ours(handler["command"]) for *_, handler in edit.handlers(edit.load_json(text, path)))


# -- .claude.json -----------------------------------------------------------------------------------------------------


def servers_file(folder: Path) -> Path:
    """Where Claude Code keeps the user's servers: beside `~/.claude`, or in the folder `CLAUDE_CONFIG_DIR` names; an
    old `.config.json` goes before both, as it does for Claude Code."""
    for name in (".config.json", ".claude.json"):
        if (folder / name).is_file():
            return folder / name
    return (folder.parent if folder.name == ".claude" else folder) / ".claude.json"


def add_server(text: str, command: Command, path: Path) -> str:
    """Adds the server of memory tools; as it was where the user has one of that name. Raises HostConfigError."""
    data = edit.load_json(text, path)
    servers = _servers(data, path)
    if SERVER in servers:
        return text
    program, *arguments = command.server()
    entry = {"type": "stdio", "command": program, "args": arguments, "env": {}}
    result = text if text.strip() else edit.EMPTY
    if "mcpServers" in data:
        result = edit.insert_json(result, ("mcpServers",), SERVER, entry)
    else:
        result = edit.insert_json(result, (), "mcpServers", {SERVER: entry})
    if edit.load_json(result, path) != {**data, "mcpServers": {**servers, SERVER: entry}}:
        raise edit.HostConfigError(f"{path} has a form that cannot be changed safely; nothing was changed.")
    return result


def strip_server(text: str, original: str | None, path: Path) -> str:
    """Removes our server, and the object that held it alone; `original`: the file before us, None when unknown."""
    data = edit.load_json(text, path)
    servers = _servers(data, path)
    if not Command.is_our_server(servers.get(SERVER)):
        return text
    if len(servers) > 1 or "mcpServers" in edit.load_json(original or "", path):
        text = edit.remove_json(text, ("mcpServers",), list(servers).index(SERVER))
    else:
        text = edit.remove_json(text, (), list(data).index("mcpServers"))
    return edit.left_of(text, original, path)


def holds_server(text: str, path: Path) -> bool:
    return Command.is_our_server(_servers(edit.load_json(text, path), path).get(SERVER))


def _servers(data: edit.Json, path: Path) -> edit.Json:
    servers = data.get("mcpServers", {})
    if not isinstance(servers, dict):
        raise edit.HostConfigError(f'{path}: "mcpServers" must be an object; nothing was changed.')
    return servers
