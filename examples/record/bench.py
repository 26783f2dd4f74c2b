"""The place where a recording happens: installed hosts, a home of its own, two projects with remotes."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# What the recorded files say instead of the real folders.
SHOWN_HOME = "/home/dev"
SHOWN_REMOTES = "git@example.com:"
SHOWN_PYTHON = "/usr"
OLDEST_NODE = (22, 19)  # what Pi asks for
NODE_PACKAGE = "node@22"
# One fixed moment for the projects' first commit, so that its hash is the same in every recording.
FIRST_COMMIT_AT = "2026-01-05T09:00:00+00:00"
INSTALL_SECONDS = 600


class BenchError(RuntimeError):
    """Something that the recording needs is missing or failed; the message ends with the program's output."""


@dataclass(frozen=True)
class Bench:
    """Folders under `--work`; only the installed hosts survive from one recording to the next."""

    work: Path

    @property
    def home(self) -> Path:
        """The home directory that hosts and shells see."""
        return self.work / "home" / "dev"

    @property
    def remotes(self) -> Path:
        """Bare repositories that git reaches as git@example.com."""
        return self.work / "remotes"

    @property
    def bin(self) -> Path:
        """First on PATH: this interpreter as python3."""
        return self.work / "bin"

    def installed(self, name: str) -> Path:
        """The npm prefix of a tool."""
        return self.work / "hosts" / name

    def program(self, name: str, command: str) -> Path:
        """A command that npm installed with a tool."""
        return self.installed(name) / "node_modules" / ".bin" / command

    def project(self, name: str) -> Path:
        """A project's folder."""
        return self.home / name

    def path(self) -> str:
        """PATH for hosts and shells."""
        tools = [self.bin, *(self.program(name, "x").parent for name in ("node", "pnpm"))]
        return os.pathsep.join([*map(str, tools), os.environ["PATH"]])

    def env(self) -> dict[str, str]:
        """A small environment that carries nothing of the person who records."""
        return {
            "HOME": str(self.home),
            "PATH": self.path(),
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "NO_COLOR": "1",
        }

    def install_env(self) -> dict[str, str]:
        """The same, with the recorder's own npm configuration, for what has to be downloaded."""
        config = Path.home() / ".npmrc"
        return self.env() | ({"NPM_CONFIG_USERCONFIG": str(config)} if config.exists() else {})


def run(command: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float) -> str:
    """Run a program to its end and return what it printed. Raises BenchError when it fails or hangs."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise BenchError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def shell(line: str, cwd: Path, env: Mapping[str, str]) -> str:
    """Run one shell line in a folder."""
    return run(["bash", "-c", line], cwd, env, INSTALL_SECONDS)


def install(bench: Bench, name: str, packages: Sequence[str], *, scripts: bool = True) -> None:
    """Install npm packages below the bench unless they are there. `scripts`: may packages run theirs."""
    prefix = bench.installed(name)
    if (prefix / "node_modules").is_dir():
        return
    prefix.mkdir(parents=True, exist_ok=True)
    extra = [] if scripts else ["--ignore-scripts"]
    env = dict(os.environ) | {"PATH": bench.path()}
    run(["npm", "install", *extra, "--prefix", str(prefix), *packages], prefix, env, INSTALL_SECONDS)


def install_tools(bench: Bench) -> None:
    """Install pnpm, and Node where the present one is too old; this interpreter becomes `python3`."""
    answer = run(["node", "--version"], bench.work, os.environ, 60).strip().removeprefix("v")
    if tuple(int(part) for part in answer.split(".")[:2]) < OLDEST_NODE:
        install(bench, "node", [NODE_PACKAGE])
    install(bench, "pnpm", ["pnpm"])
    bench.bin.mkdir(exist_ok=True)
    python = bench.bin / "python3"
    if not python.is_symlink():
        # Not the venv's own link: tracebacks would then show the recorder's folders.
        python.symlink_to(Path(sys.base_prefix) / "bin" / "python3")


def build(bench: Bench, definitions: Path) -> None:
    """Make home, remotes and projects anew from the TOML files in `definitions`."""
    for folder in (bench.home, bench.remotes):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    _write(
        bench.home / ".gitconfig",
        "[user]\n\tname = Dev\n\temail = dev@example.com\n[init]\n\tdefaultBranch = main\n"
        f'[url "{bench.remotes}/"]\n\tinsteadOf = {SHOWN_REMOTES}\n[core]\n\tquotePath = false\n',
    )
    # A login shell resets PATH from /etc, and some hosts start one.
    for name in (".profile", ".zprofile"):
        _write(bench.home / name, f'export PATH="{bench.path()}"\n')
    for definition in sorted(definitions.glob("*.toml")):
        _build_project(bench, tomllib.loads(definition.read_text("utf-8")))


def _build_project(bench: Bench, definition: dict[str, object]) -> None:
    name, remote = str(definition["name"]), str(definition["remote"])
    root = bench.project(name)
    for key in ("files", "untracked"):
        files = definition.get(key, {})
        assert isinstance(files, dict)
        for path, text in files.items():
            _write(root / path, text)
    install_lines = definition["install"]
    assert isinstance(install_lines, list)
    for line in install_lines:
        shell(line, root, bench.install_env())
    dated = bench.env() | {"GIT_AUTHOR_DATE": FIRST_COMMIT_AT, "GIT_COMMITTER_DATE": FIRST_COMMIT_AT}
    bare = bench.remotes / remote
    shell(f"git init -q --bare '{bare}'", bench.home, bench.env())
    shell("git init -q && git add -A && git commit -q -m 'First version'", root, dated)
    shell(f"git remote add origin {SHOWN_REMOTES}{remote} && git push -q -u origin main", root, bench.env())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
