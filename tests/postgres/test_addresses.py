"""Addresses that will not do, and a password that is never shown."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import main
from memory.errors import SettingsError
from memory.state.dialect import engine_for, parse_url, where
from tests.plugins.command_line import SAMPLES
from tests.plugins.postgres import PASSWORD, QUOTED, Server
from tests.postgres.home import Home

SECRET = "hunter2"


@pytest.mark.req("C055")
@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://u:hunter2@h:5/d", "postgresql://u@h:5/d"),
        ("postgres://u:hunter2@h/d", "postgresql://u@h/d"),
        ("postgresql+psycopg://u@h/d?sslmode=require&sslpassword=hunter2", "postgresql://u@h/d"),
        ("postgresql://h/d?user=u&password=hunter2", "postgresql://u@h/d"),
        ("postgresql:///d?host=/run/postgresql&user=u&password=hunter2", "postgresql://u@/run/postgresql/d"),
        ("postgresql:///?host=a&host=b&dbname=d&passfile=hunter2", "postgresql://a,b/d"),
        ("postgresql://u:hun%40hunter2%2F@h/d", "postgresql://u@h/d"),
    ],
)
def test_an_address_is_told_without_password_and_options(url: str, told: str) -> None:
    assert where(parse_url(url)) == told


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:a@hunter2@h/d",
        "postgresql://u:a@hunter2:5@h/d",
        "postgresql://u:a@hunter2/x@h/d",
        "postgresql://u:hunter2@h:port/d",
        "postgresql+asyncpg://u:hunter2@h/d",
        "postgresql+psycopg2://u:hunter2@h/d",
        "postgresql+hunter2://u:hunter2@h/d",
        "mysql://u:hunter2@h/d",
        "hunter2",
    ],
)
def test_an_address_that_will_not_do_is_refused_without_any_of_it(url: str) -> None:
    with pytest.raises(SettingsError, match=r"^state\.url") as caught:
        parse_url(url)
    assert SECRET not in str(caught.value)


def test_what_is_missing_without_the_driver_is_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SettingsError, match=r"driver is not installed\. Install slowwave\[postgres\]\.$"):
        engine_for(parse_url("postgresql://u:hunter2@h/d"), busy_seconds=1, store="default")


# -- as a user meets them ---------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    made = Home(tmp_path)
    monkeypatch.setenv("SLOWWAVE_HOME", str(made.data))
    yield made
    assert made.holding(SECRET, PASSWORD, QUOTED) == []


@pytest.mark.req("C055")
def test_a_command_says_in_a_sentence_what_is_wrong_with_the_address_and_never_the_password(
    postgres_server: Server, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    right = postgres_server.guarded("addresses")
    at = f"127.0.0.1:{postgres_server.port}"
    cases = {
        right.replace(QUOTED, "hunter2"): "refused the login",
        f"postgresql://guarded@{at}/addresses": "refused the login",
        f"postgresql://{at}/addresses?user=guarded&password=hunter2": "refused the login",
        f"postgresql://nobody:hunter2@{at}/addresses": "refused the login",
        f"{right}x": "no database of that name",
        right.replace(at, "127.0.0.1:1"): "cannot be reached",
        f"{right}?sslmode=require": "do not agree on encryption",
        f"{right}?sslmode=hunter2": "options of state.url",
        f"{right}?hunter2=1": "options of state.url",
        right.replace("%C2%A7", "@"): "more than one @",
    }
    for url, says in cases.items():
        home.configure(url)
        for command in ("status", "run"):
            with pytest.raises(SystemExit) as ended:
                main([command])
            said = capsys.readouterr()
            assert ended.value.code in {1, 2}, says
            assert says in said.err
            assert (said.out, len(said.err.splitlines())) == ("", 1)
            assert not any(word in said.err for word in (SECRET, PASSWORD, QUOTED))
    with pytest.raises(SystemExit, match="1"):
        main(["doctor"])
    errors = [line for line in capsys.readouterr().out.splitlines() if line.startswith("error")]
    assert len(errors) == 1
    assert errors[0].startswith("error    state: state.url has more than one @")


@pytest.mark.deep
def test_a_host_nobody_knows_is_named(home: Home) -> None:
    home.configure("postgresql://guarded:hunter2@no-such-host.invalid/state")
    done = home.type("status")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "slowwave: The host of the state database postgresql://guarded@no-such-host.invalid/state is not known."
        " Check its name in state.url.\n"
    )


def test_a_try_leaves_the_state_of_the_users_settings_alone(
    postgres_server: Server, home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLOWWAVE_STATE_URL", postgres_server.guarded("untouched"))
    with contextlib.suppress(SystemExit):
        main(["try", "--samples", str(SAMPLES)])
    assert "Trying slowwave on" in capsys.readouterr().out
    assert postgres_server.sql("SELECT 1 FROM pg_namespace WHERE nspname LIKE 'slowwave%'", "untouched") == []
