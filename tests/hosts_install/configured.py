"""Configurations as users have them, and what `status` says of one."""

from __future__ import annotations

from pathlib import Path

from hosts.install import Command, Host, status
from hosts.versions import Program

CLAUDE_SETTINGS = """{
    "model": "opus",   "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]
    },
    "permissions": {"allow": ["Bash(ls:*)"], "deny": []}
}"""
CODEX_CONFIG = """# my settings
model = "m"  # fast
notify = ["/usr/bin/theirs", "--flag"] # tell me

[features]
hooks = true

[projects."/home/dev/shop"]
trust_level = "trusted"
"""
INLINE_HOOKS = '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "theirs"\n'
PROGRAM = Program(Path("/usr/bin/host"), "1.2.3")


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def codes(host: Host, folder: Path, command: Command) -> list[str]:
    return [finding.code for finding in status(host, folder, PROGRAM, command).findings]
