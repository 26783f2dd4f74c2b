"""Tool calls as printed in the evidence: which command ran, which file was changed, what it was for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from memory.documents import GAP, PrintedEvent, parse_evidence
from memory.model import EventKind, Tier
from memory.offline.cues import shared

_SHELL = frozenset(
    [
        "bash",
        "shell",
        "shell_command",
        "exec_command",
        "exec",
        "local_shell",
        "local_shell_call",
        "run_terminal_cmd",
        "run_command",
        "run_shell_command",
        "terminal",
        "execute",
        "execute_command",
        "powershell",
        "cmd",
        "container.exec",
    ]
)
_EDITORS = frozenset(
    [
        "edit",
        "write",
        "multiedit",
        "notebookedit",
        "apply_patch",
        "str_replace",
        "str_replace_editor",
        "str_replace_based_edit_tool",
        "create_file",
        "write_file",
        "edit_file",
        "replace",
        "create",
        "update",
        "patch",
    ]
)
_PATH_FIELD = re.compile(r"^(?:file_path|filePath|path|filename|notebook_path|target_file): (\S.*)$", re.MULTILINE)
_PATCH_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete|Move to:?) ?(?:File)?: (\S.*)$", re.MULTILINE)
_JS_COMMAND = re.compile(r"\bcmd: ?(?:\"((?:[^\"\\\n]|\\.)+)\"|'((?:[^'\\\n]|\\.)+)'|`([^`]+)`)")
_WRAPPERS = frozenset(["sudo", "time", "nice", "nohup", "command", "env", "exec", "xargs", "then", "do", "else"])
_RUNNERS = {
    "npx": 1,
    "bunx": 1,
    "pnpx": 1,
    "uvx": 1,
    "dlx": 1,
    "pnpm exec": 2,
    "pnpm dlx": 2,
    "yarn dlx": 2,
    "yarn exec": 2,
    "npm exec": 2,
    "uv run": 2,
    "poetry run": 2,
    "pipenv run": 2,
    "bundle exec": 2,
    "hatch run": 2,
    "rye run": 2,
    "pdm run": 2,
    "conda run": 2,
}
_WITH_SUBCOMMAND = frozenset(
    [
        "git",
        "npm",
        "pnpm",
        "yarn",
        "bun",
        "make",
        "go",
        "cargo",
        "docker",
        "podman",
        "kubectl",
        "helm",
        "uv",
        "pip",
        "pip3",
        "gh",
        "glab",
        "brew",
        "poetry",
        "terraform",
        "dotnet",
        "mvn",
        "gradle",
        "gradlew",
        "rake",
        "just",
        "task",
        "deno",
        "composer",
        "rails",
        "pdm",
        "rye",
        "hatch",
        "conda",
        "apt",
        "apt-get",
        "systemctl",
        "aws",
        "gcloud",
        "az",
        "fly",
        "vercel",
        "supabase",
        "prisma",
        "alembic",
        "flutter",
        "dart",
        "swift",
        "mix",
    ]
)
_PROBES = frozenset(
    [
        "ls",
        "cat",
        "head",
        "tail",
        "sed",
        "grep",
        "rg",
        "find",
        "which",
        "echo",
        "pwd",
        "test",
        "[",
        "diff",
        "wc",
        "cd",
        "true",
        "false",
        "printf",
        "awk",
        "sort",
        "uniq",
        "jq",
        "tree",
        "stat",
        "file",
        "type",
        "date",
        "sleep",
        "ss",
        "ps",
        "lsof",
        "kill",
        "pkill",
        "less",
        "more",
        "cut",
        "tr",
        "basename",
        "dirname",
        "realpath",
        "export",
        "set",
        "unset",
        "source",
        ".",
        "mkdir",
        "touch",
        "cp",
        "mv",
        "rm",
        "chmod",
        "ln",
        "tee",
        "read",
        "exit",
        "return",
        "whoami",
        "hostname",
        "uname",
        "xxd",
        "od",
        "nl",
        "fd",
        "ag",
        "history",
        "clear",
        "open",
        "code",
        "for",
        "while",
        "if",
        "until",
        "case",
        "function",
        "[[",
        "pgrep",
        "netstat",
        "df",
        "du",
        "nproc",
        "id",
        "column",
        "comm",
    ]
)
_PURPOSES = {
    "test": "test tests pytest unittest jest vitest mocha rspec phpunit ctest tox nox e2e playwright cypress spec t",
    "lint": "lint linter eslint ruff flake8 pylint vet clippy biome shellcheck golangci-lint rubocop stylelint oxlint",
    "types": "mypy pyright tsc typecheck check-types type-check check types",
    "build": "build compile webpack rollup bundle package dist assemble",
    "format": "fmt format prettier black gofmt fix",
    "install": "install add sync ci restore upgrade tap",
    "commit": "commit",
    "push": "push",
    "run": "run start dev serve up deploy release publish",
}
_PURPOSE_OF = {word: purpose for purpose, words in _PURPOSES.items() for word in words.split()}
MAX_COMMAND = 120
"""Code points of a command as shown."""


@dataclass(frozen=True, slots=True)
class Step:
    """A tool call with its result, where both survived the budget."""

    call: PrintedEvent
    result: PrintedEvent | None = None

    @property
    def ok(self) -> bool | None:
        return None if self.result is None else succeeded(self.result)


@dataclass(frozen=True, slots=True)
class Command:
    """One program run inside a shell call: `key` names what ran ("npm test"), `purpose` what for ("test", "")."""

    key: str
    purpose: str


def read(evidence: str) -> Iterator[list[PrintedEvent]]:
    """The events of a print, run by run between its gaps: a call and its result may be parted by a gap."""
    part: list[str] = []
    for line in evidence.split("\n"):
        if GAP.match(line):
            yield list(parse_evidence("\n".join(part)))
            part = []
        else:
            part.append(line)
    yield list(parse_evidence("\n".join(part)))


def steps(parts: Iterable[list[PrintedEvent]]) -> list[Step]:
    """Pairs calls and results: oldest open call of the same tool first; a person's turn closes what is open."""
    found: list[Step] = []
    for part in parts:
        waiting: dict[str, list[int]] = {}
        for event in part:
            if event.kind is EventKind.TOOL_CALL:
                waiting.setdefault(event.tool or "", []).append(len(found))
                found.append(Step(event))
            elif event.kind is EventKind.TOOL_RESULT and (queue := waiting.get(event.tool or "")):
                place = queue.pop(0)
                found[place] = Step(found[place].call, event)
            elif event.tier is Tier.HUMAN:
                waiting = {}
    return found


_FAILED = re.compile(
    r"\A\s*(?:Exit code:? |Process exited with code |Command exited with code |exit status )(?!0\b)-?\d+"
    r"|(?:Command exited with code |exit status |Exit code:? )(?!0\b)-?\d+\s*\Z"
)
_CALLED_OFF = shared("called_off")


def succeeded(result: PrintedEvent) -> bool | None:
    """Whether a call succeeded; None where nothing tells or a person called it off."""
    head, tail = result.text[:400], result.text[-200:]
    if _CALLED_OFF.search(head):
        return None
    if result.ok is not None:
        return result.ok
    return False if _FAILED.search(head) or _FAILED.search(tail) else None


def is_shell(event: PrintedEvent) -> bool:
    return (event.tool or "").rpartition("__")[2].lower() in _SHELL


def command_text(call: PrintedEvent) -> str:
    """The command of a shell call; "" for any other."""
    if not is_shell(call):
        return ""
    text = call.text.strip()
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return ""
        found = value.get("command") or value.get("cmd") or ""
        return found if isinstance(found, str) else " ".join(map(str, found)) if isinstance(found, list) else ""
    if script := _JS_COMMAND.search(text):
        return script[1] or script[2] or script[3]
    return re.sub(r"\A(?:command|cmd): ", "", text)


def changed_files(call: PrintedEvent) -> list[str]:
    """Paths an editing call names."""
    name = (call.tool or "").rpartition("__")[2].lower()
    head = call.text[:20_000]
    patched = _PATCH_FILE.findall(head)
    if patched:
        return list(dict.fromkeys(path.strip() for path in patched))
    if name not in _EDITORS:
        return []
    found = [path.strip().strip('"') for path in _PATH_FIELD.findall(head)[:1]]
    if not found and head.startswith("{"):
        found = re.findall(r"\"(?:file_path|filePath|path)\": ?\"([^\"\\]+)\"", head)[:1]
    return found


@lru_cache(maxsize=4096)
def commands(text: str) -> tuple[Command, ...]:
    """The programs of a command line worth telling apart; probes such as `ls` are left out."""
    text = _flat(text)
    found = [Command(key, _purpose(key)) for start, end in _segments(text) if (key := _key_of(text[start:end]))]
    return tuple(dict.fromkeys(found))


def _flat(text: str) -> str:
    """Without messages given by a here-document: what stands after them is part of the command."""
    return re.sub(r"\"\$\(cat <<.*?\n\s*\)\"", '""', text[:4_000], flags=re.DOTALL)


def _key_of(segment: str) -> str:
    """What a segment runs; "" for a probe."""
    words = _words(segment)
    key = _key(words) if words else ""
    return "" if not key or key.split()[0] in _PROBES else key


def _purpose(key: str) -> str:
    program, *rest = key.split()
    if program == "git":
        return next((word for word in rest if word in {"commit", "push"}), "")
    if re.search(r"\.(?:sh|py|js|mjs|ts|rb)$", key):
        return "test" if re.search(r"(?:^|[/_ ])test", key) else ""
    for word in [*rest, program]:
        for part in [word, *re.split(r"[:_]", word)]:
            if part in _PURPOSE_OF:
                return _PURPOSE_OF[part]
    return ""


def _segments(text: str) -> list[tuple[int, int]]:
    """Places of the parts between `&&`, `||`, `;`, `|` and line ends outside quotes; stops at a here-document."""
    head = text.split("<<", 1)[0][:2000]
    masked = re.sub(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", lambda m: re.sub(r"[&|;\n]", "x", m[0]), head)
    found, start = [], 0
    for match in re.finditer(r"&&|\|\|?|;|\n", masked):
        found.append((start, match.start()))
        start = match.end()
    found.append((start, len(masked)))
    return [(a, b) for a, b in found if head[a:b].strip()]


def _words(segment: str) -> list[str]:
    words = [word.strip("()\"'") for word in segment.split()]
    while words and (re.match(r"^[A-Za-z_]\w*=", words[0]) or words[0] in _WRAPPERS or words[0].startswith("-")):
        words = words[1:]
    if words and words[0] == "timeout":
        words = words[2:]
    for runner, length in _RUNNERS.items():
        if " ".join(words[:length]) == runner and len(words) > length:
            return words[length:]
    return words


def _key(words: list[str]) -> str:
    program = words[0].rpartition("/")[2]
    if not re.match(r"^[A-Za-z_.\[][\w.+-]*$", program):
        return ""
    rest = [word for word in words[1:] if not word.startswith("-")]
    if re.match(r"^python[\d.]*$|^py$", program):
        if "-m" in words[:4] and words.index("-m") + 1 < len(words):
            return " ".join(words[words.index("-m") + 1 :][:1])
        return f"python {rest[0]}" if rest else "python"
    if rest and (program in _WITH_SUBCOMMAND or re.match(r"^[a-z][a-z-]{2,}$", rest[0])):
        longer = rest[0] in {"run", "compose", "exec"} and len(rest) > 1
        return " ".join([program, *rest[: 2 if longer else 1]])
    if program in {"node", "tsx", "ts-node", "bash", "sh", "deno", "ruby", "php", "perl"}:
        return f"{program} {rest[0]}" if rest else program
    return program


def shown(text: str, main: str = "") -> str:
    """A command as a bullet shows it, in backticks: without the probes around it; "" where it cannot be shown.

    Verbatim, one line. A long compound command is reduced to the part that runs `main` (a `Command.key`).
    """
    text = _flat(text)
    parts = [(start, end, _key_of(text[start:end])) for start, end in _segments(text)]
    named = [place for place, part in enumerate(parts) if part[2]]
    if not named:
        return ""
    whole = text[parts[named[0]][0] : parts[named[-1]][1]]
    committing = (
        re.search(r"\bgit (?:\S+ )?commit\b", whole) is not None
        and len(named) > 1
        and not main.startswith("git commit")
    )
    if "\n" not in whole.strip() and len(whole) <= MAX_COMMAND and not committing:
        return _in_backticks(whole)
    wanted = next((place for place in reversed(named) if parts[place][2] == main), named[-1])
    return _in_backticks(text[parts[wanted][0] : parts[wanted][1]])


def _in_backticks(command: str) -> str:
    line = " ".join(part.rstrip("\\").strip() for part in command.strip().split("\n")[:1])
    line = re.sub(r"(\bgit (?:\S+ )?commit\b.*?)\s+-[a-z]*m\b.*$", r"\1", line)
    line = re.sub(r"\s*(?:\d?>&\d|\d?>\s*/dev/null)\s*$", "", line).strip()
    if not line or "`" in line or "[redacted" in line.lower():
        return ""
    if len(line) <= MAX_COMMAND and line.count('"') % 2 == 0:
        return f"`{line}`"
    cut = line[:MAX_COMMAND].rpartition(" ")[0]
    if cut.count('"') % 2:
        cut = cut[: cut.rindex('"')]
    cut = cut.rstrip(" &|;\\(")
    return f"`{cut}` …" if len(cut.split()) > 2 and not cut.endswith((" -e", " -c", " -p")) else ""
