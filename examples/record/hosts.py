"""How each host is installed, set up for the scripted model, started, and where it leaves its sessions."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from examples.record.bench import Bench, run
from examples.record.fake_models import CONTEXT_WINDOW, MODEL

# Hosts insist on some key; this one opens nothing.
NO_KEY = "no-key-needed-by-the-scripted-model"
CTRL_C, CTRL_D = b"\x03", b"\x04"


class Host(ABC):
    """A host on a bench. `sessions` holds its session files; `layout` is its name in the samples."""

    name: str
    title: str
    package: str
    scripts = True
    leave: Sequence[bytes] = (CTRL_C, CTRL_C)
    layout: str

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    @property
    @abstractmethod
    def sessions(self) -> Path:
        """The folder that holds the session files."""

    @abstractmethod
    def configure(self, url: str, projects: Sequence[Path]) -> None:
        """Write the host's configuration: the scripted model at `url`, trusted projects, no other traffic."""

    @abstractmethod
    def env(self, url: str) -> dict[str, str]:
        """The environment to start it with."""

    @abstractmethod
    def interactive(self) -> list[str]:
        """The command that opens it in a terminal."""

    @abstractmethod
    def printing(self, prompt: str, session: Path | None) -> list[str]:
        """The command that answers one prompt and ends; `session` is the file to go on with."""

    def version(self) -> str:
        """What `--version` prints, reduced to the number."""
        printed = run([*self.interactive()[:2], "--version"], self.bench.work, self.bench.env(), 60)
        words = printed.replace("(", " ").split()
        return next((word for word in words if word[0].isdigit()), printed.strip())


class Codex(Host):
    """Codex CLI."""

    name = "codex"
    title = "Codex CLI"
    package = "@openai/codex"
    layout = "codex/sessions"

    @property
    def sessions(self) -> Path:
        return self.bench.home / ".codex" / "sessions"

    def configure(self, url: str, projects: Sequence[Path]) -> None:
        lines = [
            f'model = "{MODEL}"',
            'model_provider = "scripted"',
            'approval_policy = "never"',
            'sandbox_mode = "danger-full-access"',
            "check_for_update_on_startup = false",
            "[analytics]",
            "enabled = false",
            "[model_providers.scripted]",
            'name = "Scripted"',
            f'base_url = "{url}/v1"',
            'wire_api = "responses"',
            'env_key = "SCRIPTED_KEY"',
        ]
        for project in projects:
            lines += [f'[projects."{project}"]', 'trust_level = "trusted"']
        _write(self.sessions.parent / "config.toml", "\n".join(lines) + "\n")

    def env(self, url: str) -> dict[str, str]:
        del url  # in config.toml
        return self.bench.env() | {"CODEX_HOME": str(self.sessions.parent), "SCRIPTED_KEY": NO_KEY}

    def interactive(self) -> list[str]:
        # Its background server would outlive the recording and hold on to the bench.
        return ["node", str(self.bench.program(self.name, "codex")), "--no-daemon"]

    def printing(self, prompt: str, session: Path | None) -> list[str]:
        again = ["resume", _last_uuid(session)] if session else []
        return [*self.interactive()[:2], "exec", *again, prompt]


class ClaudeCode(Host):
    """Claude Code."""

    name = "claude"
    title = "Claude Code"
    package = "@anthropic-ai/claude-code"
    layout = "claude/projects"

    @property
    def sessions(self) -> Path:
        return self.bench.home / ".claude" / "projects"

    def configure(self, url: str, projects: Sequence[Path]) -> None:
        del url  # in the environment
        trusted = {str(project): {"hasTrustDialogAccepted": True} for project in projects}
        # It remembers an approved key by its last 20 characters.
        keys = {"approved": [NO_KEY[-20:]], "rejected": []}
        state = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": keys}
        _write(self.sessions.parent / ".claude.json", json.dumps(state | {"projects": trusted}))
        rules = {"permissions": {"defaultMode": "acceptEdits", "allow": ["Bash", "Read", "Write", "Edit"]}}
        _write(self.sessions.parent / "settings.json", json.dumps(rules))

    def env(self, url: str) -> dict[str, str]:
        return self.bench.env() | {
            "CLAUDE_CONFIG_DIR": str(self.sessions.parent),
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": NO_KEY,
            "ANTHROPIC_MODEL": MODEL,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def interactive(self) -> list[str]:
        return [str(self.bench.program(self.name, "claude"))]

    def printing(self, prompt: str, session: Path | None) -> list[str]:
        again = ["--resume", session.stem] if session else []
        return [*self.interactive(), *again, "--print", prompt]


class Pi(Host):
    """Pi."""

    name = "pi"
    title = "Pi"
    package = "@earendil-works/pi-coding-agent"
    scripts = False
    leave = (CTRL_C, CTRL_D)
    layout = "pi/sessions"

    @property
    def sessions(self) -> Path:
        return self.bench.home / ".pi" / "agent" / "sessions"

    def configure(self, url: str, projects: Sequence[Path]) -> None:
        del projects  # it knows no trust
        free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {"id": MODEL, "name": "Scripted", "contextWindow": CONTEXT_WINDOW, "maxTokens": 4096}
        model |= {"input": ["text"], "cost": free, "reasoning": False}
        provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": NO_KEY, "models": [model]}
        _write(self.sessions.parent / "models.json", json.dumps({"providers": {"scripted": provider}}))

    def env(self, url: str) -> dict[str, str]:
        del url  # in models.json
        agent = {"PI_CODING_AGENT_DIR": str(self.sessions.parent)}
        return self.bench.env() | agent | {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def interactive(self) -> list[str]:
        program = str(self.bench.program(self.name, "pi"))
        return ["node", program, "--provider", "scripted", "--model", MODEL]

    def printing(self, prompt: str, session: Path | None) -> list[str]:
        again = ["--session", str(session)] if session else []
        return [*self.interactive(), *again, "--print", prompt]


ALL: tuple[type[Host], ...] = (Codex, ClaudeCode, Pi)


def _last_uuid(session: Path) -> str:
    """The thread id at the end of a rollout's file name."""
    return session.stem[-36:]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
