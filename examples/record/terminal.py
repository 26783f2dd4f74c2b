"""Runs a full-screen program in a pseudo terminal and types into it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROWS, COLUMNS = 50, 160
# Characters that come in one burst are taken for a paste, in which Return is a new line and sends nothing.
PAUSE_BEFORE_RETURN = 1.0  # seconds
POLL = 0.1  # seconds
# What the child does before it becomes the host: make the pseudo terminal its controlling terminal.
TAKE_TERMINAL = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
# Questions a program may ask its terminal, and what a plain terminal answers.
ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;22c", b"\x1b[0c": b"\x1b[?62;22c"}

# Control sequences of a terminal: commands with parameters, titles and links, single characters.
CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
SHOWN_BYTES = 200_000


class TerminalError(RuntimeError):
    """The program ended early or did not do what was waited for in time; the message ends with its screen."""


class Terminal:
    """A program in a pseudo terminal; a context manager that ends the program's process group on leaving."""

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.screen = bytearray()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *command],
            cwd=cwd,
            env={**env, "TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)

    def type_line(self, text: str) -> None:
        """Type text, then Return after a pause."""
        os.write(self._master, text.encode())
        self.pump(PAUSE_BEFORE_RETURN)
        os.write(self._master, b"\r")

    def wait_until(self, done: Callable[[], bool], what: str, seconds: float) -> None:
        """Serve the terminal until `done()`. Raises TerminalError after `seconds` or at the program's end."""
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise TerminalError(f"waited for {what}; last on the screen:\n{self.tail()}")
            self.pump(POLL)

    def wait_quiet(self, quiet: float, seconds: float) -> None:
        """Serve the terminal until nothing was printed for `quiet` seconds, at most `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            before = len(self.screen)
            self.pump(quiet)
            if len(self.screen) == before and before:
                return

    def close(self, keys: Sequence[bytes], seconds: float) -> None:
        """Ask the program to leave by its own keys and wait for it. Raises TerminalError if it stays."""
        for key in keys:
            if self._process.poll() is None:
                os.write(self._master, key)
                self.pump(0.5)
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                raise TerminalError(f"the program did not leave; last on the screen:\n{self.tail()}")
            self.pump(POLL)

    def pump(self, seconds: float) -> None:
        """Read what the program prints for `seconds`, answering its questions to the terminal."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._master], [], [], left)[0]:
                return
            try:
                data = os.read(self._master, 65536)
            except OSError:  # Linux reports the end of the other side as an input/output error
                return
            if not data:
                return
            self.screen += data
            for question, answer in ANSWERS.items():
                if question in data:
                    os.write(self._master, answer)

    def tail(self) -> str:
        """The last words printed, without control sequences and without what only blinks."""
        words = CONTROL.sub("\n", self.screen[-SHOWN_BYTES:].decode("utf-8", "replace")).splitlines()
        return "\n".join(line for line in words if len(line.strip()) > 1)[-3000:]
