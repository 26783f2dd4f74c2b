"""A fresh workspace, its inputs as a manifest, and children that can be killed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from memory import failpoints
from memory.model import InputFile, Manifest
from memory.workspace import Workspace
from memory.workspace.layout import sha256_text
from tests.memory.workspace.trees import ONE, TWO, Inputs


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.open(tmp_path / "home", "g1")


@pytest.fixture
def read_inputs() -> Callable[[Workspace], Inputs]:
    """Everything that lies in a workspace now, as a consolidation would take it."""

    def read(workspace: Workspace) -> Inputs:
        texts = {workspace.rollout_summary_path(sid): text for sid, text in workspace.rollout_summaries().items()}
        texts |= {note.path: note.text for note in workspace.notes().notes}
        inputs = [
            InputFile(_citation(path), path, sha256_text(text), len(text), "acme/shop") for path, text in texts.items()
        ]
        return Manifest(workspace.generation, tuple(inputs)), texts

    return read


@pytest.fixture
def filled(
    workspace: Workspace, read_inputs: Callable[[Workspace], Inputs]
) -> tuple[Workspace, Manifest, dict[str, str]]:
    """Two rollout summaries and a note, nothing published yet."""
    workspace.write_rollout_summary(ONE, "# one\n- uses vitest [e1]\n")
    workspace.write_rollout_summary(TWO, "# two\n- 统一用 pnpm [e2]\n")
    workspace.write_note("house-rules", "Never force-push.", pinned=True)
    return workspace, *read_inputs(workspace)


@pytest.fixture
def in_children() -> Callable[[Sequence[Callable[[], None]]], list[int]]:
    """Runs actions at the same time, each in a forked process; returns their exit codes (-9: killed by SIGKILL)."""

    def run(actions: Sequence[Callable[[], None]]) -> list[int]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # no thread of ours runs while we fork
            children = [_fork(action) for action in actions]
        return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    return run


@pytest.fixture
def in_child(
    in_children: Callable[[Sequence[Callable[[], None]]], list[int]],
) -> Callable[[Callable[[], None]], int]:
    """One action in a forked process."""
    return lambda action: in_children([action])[0]


def _fork(action: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return child


def _citation(path: str) -> str:
    name = path.rpartition("/")[2].removesuffix(".md")
    return name[:8] if path.startswith("rollout_summaries/") else f"note:{name}"
