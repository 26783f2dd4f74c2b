"""Where test data that is not part of the project lies: beside the checkout, or where a variable says."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
WHEEL_SOURCE = "TESTED_WHEEL_SOURCE"


def corpus() -> Path | None:
    """Real session files: `SLOWWAVE_CORPUS`, default `../shared/corpus` beside the checkout."""
    return _existing("SLOWWAVE_CORPUS", "corpus")


def requirements() -> Path | None:
    """The list of requirement rows as JSON: `SLOWWAVE_REQUIREMENTS`, default `../shared/spec/requirements.json`."""
    return _existing("SLOWWAVE_REQUIREMENTS", "spec/requirements.json")


def faults() -> Path | None:
    """The list of reported faults as Markdown: `SLOWWAVE_FAULTS`, default `../shared/spec/faults.md`."""
    return _existing("SLOWWAVE_FAULTS", "spec/faults.md")


def wheel_source() -> Path | None:
    """In a wheel test, the checkout the wheel under test was built from: `SLOWWAVE_WHEEL_TEST`. Else None.

    Kept under a name that is not one of ours, since the isolation takes ours away before xdist starts its workers.
    """
    said = os.environ.get("SLOWWAVE_WHEEL_TEST") or os.environ.get(WHEEL_SOURCE)
    if said:
        os.environ[WHEEL_SOURCE] = said
    return Path(said) if said else None


def hosts() -> Path | None:
    """The real hosts, as deploy/install_hosts.sh leaves them: `SLOWWAVE_HOSTS`, default ~/.cache/slowwave/hosts.

    What is found is said in the variable, for the workers of a parallel run: they start in an empty home.
    """
    said = os.environ.get("SLOWWAVE_HOSTS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = Path(said).expanduser().absolute() if said else cache / "slowwave" / "hosts"
    if not path.is_dir():
        return None
    os.environ["SLOWWAVE_HOSTS"] = str(path)
    return path


def _existing(variable: str, beside: str) -> Path | None:
    said = os.environ.get(variable)
    path = Path(said).expanduser().absolute() if said else ROOT.parent / "shared" / beside
    return path if path.exists() else None
