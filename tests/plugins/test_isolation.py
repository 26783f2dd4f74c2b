from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory.settings import load
from tests.plugins.isolation import leaking

HOMES: list[Path] = []


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_gets_an_empty_home_of_its_own(turn: int) -> None:
    home = Path.home()
    assert list(home.iterdir()) == []
    assert home not in HOMES
    HOMES.append(home)
    (home / "left behind").touch()


def test_the_data_folder_lies_in_the_tests_home(isolated_home: Path) -> None:
    assert load().home.is_relative_to(isolated_home)


def test_keys_places_and_proxies_do_not_reach_a_test_but_test_data_does() -> None:
    hidden = ["OPENAI_API_KEY", "SLOWWAVE_MODEL_NAME", "CODEX_HOME", "HTTPS_PROXY", "https_proxy", "GIT_DIR"]
    shown = ["SLOWWAVE_CORPUS", "SLOWWAVE_BENCH_DATA", "PATH", "LANG"]
    assert leaking(dict.fromkeys([*hidden, *shown], "x")) == hidden


def test_a_run_with_a_key_in_the_environment_passes_none_on(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.plugins.isolation"]\n', encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "import os\n"
        "def test_it():\n"
        "    assert not [name for name in os.environ if name.startswith('OPENAI_')]\n"
        "    assert os.environ['SLOWWAVE_CORPUS'] == '/somewhere'\n",
        encoding="utf-8",
    )
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    said = alone | {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": "http://x", "SLOWWAVE_CORPUS": "/somewhere"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, **said, "PYTHONPATH": str(root)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
