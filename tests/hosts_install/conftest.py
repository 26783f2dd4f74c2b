"""A home with the configuration of three hosts, and an installed program beside no interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosts.install import Command, hook_command


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """The command of an installation in a folder with a space in its name."""
    scripts = tmp_path / "a venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "slowwave-hook").write_text("#!/bin/sh\n", "utf-8")
    return hook_command(scripts=scripts)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Where installations are remembered."""
    return tmp_path / "records"
