"""A data folder whose settings name a server, and `slowwave` in it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.plugins.command_line import CONFIG, SAMPLES, Result

ROOT = Path(__file__).resolve().parents[2]


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.data.mkdir(mode=0o700, parents=True)

    def configure(self, url: str, more: str = "") -> None:
        """The sample sessions, all at once, and the state where `url` says; `more` is TOML of other sections."""
        text = CONFIG.format(samples=SAMPLES) + f"[state]\nurl = {json.dumps(url)}\nbusy_seconds = 10\n{more}"
        (self.data / "config.toml").write_text(text, encoding="utf-8")
        (self.data / "config.toml").chmod(0o600)

    def environment(self, **variables: str) -> dict[str, str]:
        """Of a child: nothing of the person who runs the tests."""
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        return {**kept, "HOME": str(self.folder), "SLOWWAVE_HOME": str(self.data), **variables}

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "cli.main", *arguments], cwd=ROOT, env=self.environment(**variables),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def type(self, *arguments: str, **variables: str) -> Result:
        """A command to its end."""
        with self.start(*arguments, **variables) as process:
            out, err = process.communicate(timeout=90)
        return Result(process.returncode, out, err)

    def holding(self, *words: str) -> list[str]:
        """Files that hold one of the words, but for the settings, which may."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.name != "config.toml"]
        return [str(path) for path in files if any(word.encode() in path.read_bytes() for word in words)]
