"""What the dashboard's ports do over the real rooms: dry runs and hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.planning import planner
from cli.web import Installers, allowed
from memory.clock import SystemClock
from memory.errors import SlowwaveError
from memory.settings import Settings, load
from memory.state import Ledger, Store
from tests.plugins.command_line import CONFIG, SAMPLES


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = tmp_path / "data"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(CONFIG.format(samples=SAMPLES), encoding="utf-8")
    return load(environ={"SLOWWAVE_HOME": str(home), "HOME": str(tmp_path)})


def test_a_dry_run_bounds_each_stage_and_calls_no_model(settings: Settings) -> None:
    plan = planner(lambda: settings)
    whole, reading, rest = (plan(stage=stage, rollouts=()) for stage in ("all", "extract", "consolidate"))
    assert len(whole.rollouts) == len(reading.rollouts) == 11
    assert rest.rollouts == ()
    assert whole.requests == reading.requests + settings.consolidate.max_requests
    assert whole.money == 0.0  # the built-in engine costs nothing
    one = plan(stage="extract", rollouts=[whole.rollouts[0]])
    assert one.rollouts == (whole.rollouts[0],)
    assert one.requests == settings.extract.repairs + 1
    with Store.open(settings, SystemClock()) as store:
        assert Ledger(store, settings.budget, SystemClock(), "x").total().requests == 0
        assert store.runs.last() == []


def test_a_dry_run_of_a_session_nobody_knows_is_refused(settings: Settings) -> None:
    with pytest.raises(SlowwaveError):
        planner(lambda: settings)(stage="extract", rollouts=["codex:nobody"])


def test_a_host_names_the_files_it_would_get_and_gives_them_back(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text('model = "x"  # mine\n', encoding="utf-8")
    port = Installers(lambda: settings)
    codex = next(one for one in port.states() if one.host == "codex")
    assert codex.found
    assert not codex.installed
    assert str(tmp_path / ".codex" / "config.toml") in codex.files
    assert all(line for line in port.install("codex"))
    assert next(one for one in port.states() if one.host == "codex").installed
    port.uninstall("codex")
    assert (tmp_path / ".codex" / "config.toml").read_text(encoding="utf-8") == 'model = "x"  # mine\n'


def test_the_dashboard_answers_to_the_host_it_listens_on_and_never_to_all(settings: Settings) -> None:
    def names(host: str) -> tuple[str, ...]:
        return allowed(settings.model_copy(update={"service": settings.service.model_copy(update={"host": host})}))

    assert "192.168.7.7" in names("192.168.7.7")
    assert "0.0.0.0" not in names("0.0.0.0")
    assert "127.0.0.1" in names("::")
