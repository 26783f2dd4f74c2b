"""Every test starts in an empty home and sees no setting, key or proxy of the person who runs it.

The process gets a clean environment before anything is imported (some libraries read it at import), and each test a
home of its own. Children inherit both.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

KEPT = frozenset({"SLOWWAVE_CORPUS", "SLOWWAVE_BENCH_DATA", "SLOWWAVE_HOSTS"})
OURS = ("SLOWWAVE_", "OPENAI_", "ANTHROPIC_", "CODEX_", "CLAUDE_", "PI_", "PREFECT_", "XDG_")
"""Prefixes of variables that say where something lies, which model answers, or how a host behaves."""
EXACT = frozenset(
    {"CLAUDECODE", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
)
"""A test run from a Git hook must not write to the repository the hook is for; a proxy is not loopback."""

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes that must be free for a whole run; it takes less than one in four of them."""

_numbers = itertools.count(1)


def leaking(environment: dict[str, str]) -> list[str]:
    """The variables of an environment that no test may see."""
    return [
        name
        for name in environment
        if name not in KEPT and (name.upper() in EXACT or any(name.startswith(prefix) for prefix in OURS))
    ]


def in_memory() -> Path | None:
    """A file system in memory, where there is one that has room and lets programs be started from it.

    Every store and summary of a test is flushed as a user's is. A disk takes a third of a run's time for that, and
    nothing of it is to outlive a power cut.
    """
    try:
        free, flags = shutil.disk_usage(MEMORY).free, os.statvfs(MEMORY).f_flag
    except OSError:
        return None
    usable = free >= ROOM and not flags & os.ST_NOEXEC and os.access(MEMORY, os.W_OK | os.X_OK)
    return MEMORY if usable else None


def pytest_configure(config: pytest.Config) -> None:
    """Before collection: a home for what is read or written at import time, and a place for everything temporary."""
    memory = in_memory()
    shelter = tempfile.TemporaryDirectory(prefix="slowwave-tests-", dir=memory, ignore_cleanup_errors=True)
    config.add_cleanup(shelter.cleanup)
    clean = pytest.MonkeyPatch()
    config.add_cleanup(clean.undo)
    for name in leaking(dict(os.environ)):
        clean.delenv(name)
    clean.setenv("HOME", shelter.name)
    if memory is not None:
        Path(shelter.name).chmod(0o755)  # as the system's own folder: some tests ask what other users may see
        clean.setenv("TMPDIR", shelter.name)
        clean.setattr(tempfile, "tempdir", shelter.name)
        if "PYTEST_DEBUG_TEMPROOT" not in os.environ:  # pytest's own variable for where `tmp_path` lies
            clean.setenv("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.fixture(autouse=True)
def isolated_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty HOME for this test alone; slowwave's own default home lies in it. Variables a test sets directly
    are taken back after it."""
    before = _variables()
    home = tmp_path_factory.getbasetemp() / "homes" / f"home{next(_numbers)}"
    home.mkdir(parents=True)
    os.environ["HOME"] = str(home)
    yield home
    after = _variables()
    for name in after.keys() - before.keys():
        del os.environ[name]
    for name, value in before.items():
        if after.get(name) != value:
            os.environ[name] = value


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
