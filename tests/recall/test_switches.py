"""The switches a hook reads are the settings everybody else reads: same keys, defaults, words and faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory import switches
from memory.settings import load as load_settings


def test_the_switches_have_the_keys_and_defaults_of_the_settings(tmp_path: Path) -> None:
    settings = load_settings(environ={"SLOWWAVE_HOME": str(tmp_path)})
    for section, keys in switches.DEFAULTS.items():
        for key, value in keys.items():
            assert getattr(getattr(settings, section), key) == value
    for name, value in {
        "MEMORY_MODE": "long",
        "MEMORY_ENABLED": "FALSE",
        "INJECT_SHORT_IN_LONG": "0",
        "INJECT_SCOPE": "all",
        "INJECT_PI_CHARS": "77",
    }.items():
        environ = {"SLOWWAVE_HOME": str(tmp_path), f"SLOWWAVE_{name}": value}
        section, _, key = name.lower().partition("_")
        assert switches.load(environ).values[section][key] == getattr(
            getattr(load_settings(environ=environ), section), key
        )


@pytest.mark.parametrize("word", ["true", "TRUE", "1", "yes", "on", "false", "False", "0", "no", "off"])
def test_words_for_true_and_false_mean_the_same_in_both(tmp_path: Path, word: str) -> None:
    environ = {"SLOWWAVE_HOME": str(tmp_path), "SLOWWAVE_MEMORY_ENABLED": word}
    assert switches.load(environ).enabled is load_settings(environ=environ).memory.enabled
    (tmp_path / "config.toml").write_text(f'[memory]\nenabled = "{word}"\n', "utf-8")
    del environ["SLOWWAVE_MEMORY_ENABLED"]
    assert switches.load(environ).enabled is load_settings(environ=environ).memory.enabled


@pytest.mark.parametrize("store", ["", "default", "team-a", "NOT A NAME"])
def test_home_and_store_are_where_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for environ in (
        {"SLOWWAVE_HOME": str(tmp_path / "x")},
        {"HOME": str(tmp_path)},
        {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "xdg")},
        {"HOME": str(tmp_path), "SLOWWAVE_HOME": "~/y"},
    ):
        if "XDG_DATA_HOME" in environ:
            monkeypatch.setenv("XDG_DATA_HOME", environ["XDG_DATA_HOME"])
        environ |= {"SLOWWAVE_STORE": store} if store else {}
        found = switches.load(environ)
        if store == "NOT A NAME":
            assert (found.home, found.mode) == ("", "off")
            assert "SLOWWAVE_STORE" in found.problem
        else:
            assert found.home == str(load_settings(environ=environ).home)
            assert found.config == str(load_settings(environ=environ).config_file)


@pytest.mark.parametrize(
    "text",
    [
        *["[memory]\nmode = 3\n", "[memory]\nenabled = 'maybe'\n", "[memory]\nenabled = 2\n", "not toml"],
        *["[inject]\nscope = 'some'\n", "[inject]\npi_chars = true\n", "[inject]\npi_chars = -1\n"],
        "[model]\nname = 5\n",
    ],
)
def test_a_value_that_cannot_be_used_switches_off_and_is_refused_by_the_settings_too(tmp_path: Path, text: str) -> None:
    from memory.errors import SettingsError

    (tmp_path / "config.toml").write_text(text, "utf-8")
    environ = {"SLOWWAVE_HOME": str(tmp_path)}
    found = switches.load(environ)
    assert found.mode == "off"
    assert "memory is off" in found.problem
    with pytest.raises(SettingsError):
        load_settings(environ=environ)
