"""What every test stands on: an empty home, no network beyond this machine, the corpus, the report of proven rows.

The plugins are ordinary modules of `tests.plugins`; `pythonpath = ["."]` in pyproject.toml makes them importable.
pytest loads this file before its configuration is complete however it is called (whole suite, one folder, one test,
xdist worker), so naming plugins here is allowed. The conftest.py files further down only add fixtures of their own.
"""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.plugins import places

pytest_plugins = [
    "tests.plugins.isolation",
    "tests.plugins.loopback_only",
    "tests.plugins.req_report",
    "tests.plugins.examples",
]

CORPUS = places.corpus()
WHEEL_SOURCE = places.wheel_source()
HOSTS = places.hosts()
"""Looked up once, before the isolation takes the environment away."""
LONG = ("deep", "server", "browser", "hosts", "smoke")
"""Marks of tests that take from seconds to minutes each."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests that take long come first: a parallel run deals out files in this order, and what is dealt last
    should not keep one worker busy for minutes after the others."""
    long = {item.path for item in items if any(item.get_closest_marker(name) for name in LONG)}
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish() -> None:
    """What thousands of collected tests are made of stays to the end: looking through it at every turn of the garbage
    collector, and copying it for every fork, takes a twentieth of a run."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real session files, to be read in place; skips where it is absent."""
    if CORPUS is None:
        pytest.skip("no session files: set SLOWWAVE_CORPUS to their folder")
    return CORPUS


@pytest.fixture(scope="session")
def hosts_folder() -> Path:
    """The folder of the real hosts; skips where they are absent."""
    if HOSTS is None:
        pytest.skip("the real hosts are not installed: run deploy/install_hosts.sh")
    return HOSTS


@pytest.fixture(scope="session")
def wheel_source() -> Path | None:
    """The checkout the installed wheel was built from; None where the checkout itself is what runs."""
    return WHEEL_SOURCE
