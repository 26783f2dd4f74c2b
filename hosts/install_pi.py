"""Pi: an extension in a folder of its own below `extensions`, which Pi finds by itself; no settings file is touched.

`index.ts` is the same for everybody (`hosts/pi/index.ts`); `command.json` beside it says which programs to call and
which memory tools to offer, in the words other hosts get from the server of these tools.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hosts import edit
from hosts.edit import HostConfigError
from hosts.install import Command, Finding, Target

SOURCE = Path(__file__).parent / "pi" / "index.ts"
OFFERED = ("memory_recall", "memory_list", "memory_remember", "memory_forget")
MARK = "// slowwave: "
"""How the first line of our extension begins, in every version."""


class Pi:
    name = "pi"
    title = "Pi"
    program = "pi"
    approval = ""

    def folder(self, environment: Mapping[str, str]) -> Path:
        said = environment.get("PI_CODING_AGENT_DIR")
        return Path(said).expanduser() if said else Path(environment.get("HOME", "~")).expanduser() / ".pi" / "agent"

    def targets(self, folder: Path, command: Command) -> list[Target]:
        place = folder / "extensions" / "slowwave"
        extension, told = place / "index.ts", place / "command.json"

        def add_extension(text: str) -> str:
            if text:
                raise HostConfigError(
                    f"{extension} is another extension's; nothing was changed.", hint="Rename that extension's folder."
                )
            return SOURCE.read_text("utf-8")

        def add_command(text: str) -> str:
            if text:
                raise HostConfigError(f"{told} is not ours; nothing was changed.", hint="Move it away and run again.")
            commands = {"hook": [*command.argv, "pi"], "tool": command.program("tool"), "tools": offered()}
            return json.dumps(commands, ensure_ascii=False, indent=2) + "\n"

        return [
            Target(
                extension, add_extension, lambda text, original: "", lambda text: text.startswith(MARK), folder=place
            ),
            Target(told, add_command, lambda text, original: "", lambda text: _tells(text, told), folder=place),
        ]

    def findings(self, folder: Path) -> list[Finding]:
        path = folder / "settings.json"
        entries = edit.load_json(edit.read(path).text, path).get("extensions")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, str) and entry[:1] in ("-", "!") and "slowwave" in entry:
                return [Finding("hooks_off", f"The extension is switched off by {entry!r} in {path}.", blocks=True)]
        return []


def offered() -> list[dict[str, Any]]:
    """The tools as Pi registers them."""
    from hosts.mcp_tools import TOOLS

    return [
        {
            "name": tool.name,
            "label": tool.title,
            "description": tool.description,
            "parameters": tool.schema,
            "asks": tool.destroys,
        }
        for tool in (TOOLS[name] for name in OFFERED)
    ]


def _tells(text: str, path: Path) -> bool:
    hook = edit.load_json(text, path).get("hook") if text else None
    return isinstance(hook, list) and any(Command.is_ours(str(word)) for word in hook)
