"""Settings: one place, unknown keys named, secrets never shown, the document true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
import types
import typing
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from memory.errors import SettingsError
from memory.settings import RESERVED, SECTIONS, BudgetSettings, Price, Settings, enabled_on_disk, load

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def read(home: Path, text: str = "", *, overrides: Any = None, **variables: str) -> Settings:
    (home / "config.toml").write_text(text, encoding="utf-8")
    return load(environ={"SLOWWAVE_HOME": str(home), **variables}, overrides=overrides)


def refused(home: Path, text: str = "", **variables: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        read(home, text, **variables)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_without_file_and_variables_everything_has_its_default(home: Path) -> None:
    settings = load(environ={"SLOWWAVE_HOME": str(home / "none")})
    assert settings.home == home / "none"
    assert settings.memory.mode == "short"
    assert (settings.extract.max_age_days, settings.extract.idle_hours, settings.extract.batch) == (10, 6, 2)
    assert (settings.consolidate.max_requests, settings.consolidate.max_chars) == (64, 300_000)
    assert not (home / "none").exists()


def test_environment_stands_above_the_file_and_the_command_line_above_both(home: Path) -> None:
    text = "[extract]\nbatch = 3\nidle_hours = 4\nrepairs = 0\n"
    overrides = {"extract": {"batch": 5}}
    settings = read(home, text, overrides=overrides, SLOWWAVE_EXTRACT_BATCH="4", SLOWWAVE_EXTRACT_IDLE_HOURS="1.5")
    assert (settings.extract.batch, settings.extract.idle_hours, settings.extract.repairs) == (5, 1.5, 0)
    assert settings.overridden == {"extract.batch", "extract.idle_hours"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[extract]\nidel_hours = 1", ["config.toml", "extract.idel_hours", "Did you mean idle_hours?"]),
        ("[extrakt]\nbatch = 1", ["config.toml", "[extrakt]", "Did you mean extract?"]),
        ("batch = 1", ["config.toml", "batch"]),
        ("memory = 1", ["config.toml", "[memory]"]),
        ('[budget.prices."m"]\ninptu = 1', ["budget.prices.m.inptu", "Did you mean input?"]),
        ("[extract\nbatch = 1", ["config.toml", "not valid TOML", "line 1"]),
    ],
)
def test_an_unknown_name_in_the_file_is_an_error_that_names_the_nearest(
    home: Path, text: str, names: list[str]
) -> None:
    said = refused(home, text)
    assert [name for name in names if name not in said] == []


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("SLOWWAVE_EXTRACT_IDEL_HOURS", "idle_hours"),
        ("SLOWWAVE_EXTRAKT_IDLE_HOURS", "SLOWWAVE_EXTRACT_IDLE_HOURS"),
        ("SLOWWAVE_EXTRACT", "SLOWWAVE_EXTRACT_"),
        ("SLOWWAVE_APIKEY", "SLOWWAVE_MODEL_API_KEY"),
    ],
)
def test_an_unknown_variable_is_an_error_that_names_the_nearest_and_no_value(
    home: Path, variable: str, nearest: str
) -> None:
    said = refused(home, **{variable: "secret-value"})
    assert variable in said
    assert nearest in said
    assert "secret-value" not in said


def test_an_unknown_override_is_an_error(home: Path) -> None:
    assert "Did you mean batch?" in refused(home, overrides={"extract": {"batsh": 1}})
    assert "Did you mean extract?" in refused(home, overrides={"extrac": {}})


def test_reserved_names_and_other_programs_variables_are_no_settings(home: Path) -> None:
    variables = {f"SLOWWAVE_{name}": "x" for name in RESERVED - {"HOME", "CONFIG"}}
    assert read(home, **variables, SLOWWAVEX="1", PATH="/bin").store == "x"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('[extract]\nbatch = "many"', "extract.batch"),
        ("[extract]\nbatch = 1.5", "extract.batch"),
        ("[extract]\nbatch = -1", "extract.batch"),
        ("[extract]\nbatch = true", "extract.batch"),
        ("[extract]\nidle_hours = nan", "extract.idle_hours"),
        ("[extract]\nwindow_share = 1.0", "extract.window_share"),
        ('[memory]\nmode = "medium"', "memory.mode"),
        ("[memory]\nenabled = 3", "memory.enabled"),
        ('[rollouts]\nhosts = ["emacs"]', "rollouts.hosts"),
        ("[budget]\nday_money = -0.01", "budget.day_money"),
        ("[budget]\nday_money = inf", "budget.day_money"),
        ('[budget.prices."m"]\ninput = 1', "budget.prices.m.output"),
        ('[extract]\nbatch = "none"', "extract.batch"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_its_setting(home: Path, text: str, name: str) -> None:
    assert f"Setting {name}" in refused(home, text)


def test_values_from_the_environment_have_the_types_of_the_file(home: Path) -> None:
    settings = read(
        home,
        SLOWWAVE_MEMORY_ENABLED="FALSE",
        SLOWWAVE_ROLLOUTS_HOSTS="codex, pi",
        SLOWWAVE_ROLLOUTS_CODEX_ROOTS=os.pathsep.join(["/a", "~/b"]),
        SLOWWAVE_ROLLOUTS_PI_ROOTS='["/c,d"]',
        SLOWWAVE_BUDGET_RUN_TOKENS="none",
        SLOWWAVE_BUDGET_DAY_MONEY="2.5",
        SLOWWAVE_BUDGET_PRICES='{ "m" = { input = 1, output = 2 } }',
        SLOWWAVE_MODEL_NAME="123",
        SLOWWAVE_EXTRACT_BATCH="",
    )
    assert settings.memory.enabled is False
    assert settings.rollouts.hosts == ("codex", "pi")
    assert settings.rollouts.codex_roots == (Path("/a"), Path.home() / "b")
    assert settings.rollouts.pi_roots == (Path("/c,d"),)
    assert settings.budget.run_tokens is None
    assert settings.budget.day_money == 2.5
    assert settings.budget.prices == {"m": Price(input=1, output=2)}
    assert settings.model.name == "123"
    assert settings.extract.batch == 2


def test_none_in_the_file_lifts_a_ceiling(home: Path) -> None:
    settings = read(home, '[budget]\nrun_tokens = "none"\nday_tokens = 0\n')
    assert (settings.budget.run_tokens, settings.budget.day_tokens) == (None, 0)


def test_the_common_variables_serve_where_our_own_settings_are_silent(home: Path) -> None:
    common = {"OPENAI_API_KEY": "sk-common", "OPENAI_BASE_URL": "http://h/v1"}
    settings = read(home, **common)
    assert settings.model.api_key.get_secret_value() == "sk-common"
    assert settings.model.base_url == "http://h/v1"
    text = '[model]\napi_key = "sk-ours"\nbase_url = "http://ours/v1"'
    settings = read(home, text, **common, SLOWWAVE_API_KEY="sk-short")
    assert settings.model.api_key.get_secret_value() == "sk-ours"
    assert settings.model.base_url == "http://ours/v1"
    assert read(home, **common, SLOWWAVE_API_KEY="sk-short").model.api_key.get_secret_value() == "sk-short"
    assert read(home, OPENAI_API_KEY="").model.api_key.get_secret_value() == ""


def test_no_way_of_printing_settings_shows_a_secret(home: Path) -> None:
    settings = read(
        home,
        OPENAI_API_KEY="sk-canary-1",
        SLOWWAVE_STATE_URL="postgresql://u:canary-2@h/d",
        SLOWWAVE_MODEL_BASE_URL="https://user:canary-3@h/v1",
    )
    dumped = settings.model_dump_json(exclude={"model": {"base_url"}})
    assert "canary" not in f"{settings!r}{settings}{settings.model!r}{settings.state}{dumped}"


def test_no_error_shows_the_value_it_complains_of(home: Path) -> None:
    text = '[model]\napi_key = 12345678\n[state]\nbusy_seconds = "canary-1"\n'
    variables = {"SLOWWAVE_MODEL_WINDOW": "canary-2"}
    with pytest.raises(SettingsError) as caught:
        read(home, text, **variables)
    shown = "".join(traceback.format_exception(caught.value))
    assert "canary" not in shown
    assert "12345678" not in shown


def test_settings_cannot_be_changed_after_the_start(home: Path) -> None:
    settings = read(home)
    with pytest.raises(ValueError, match="frozen"):
        settings.extract.batch = 9


def test_an_unreadable_file_is_an_error_that_names_it(home: Path) -> None:
    (home / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=re.escape(str(home / "config.toml"))):
        load(environ={"SLOWWAVE_HOME": str(home)})


@pytest.mark.req("C062")
def test_each_store_has_a_data_folder_of_its_own_and_shares_the_file(home: Path) -> None:
    text = "[extract]\nbatch = 7\n"
    mine, team = read(home, text), read(home, text, SLOWWAVE_STORE="team-a")
    assert (mine.home, mine.store) == (home, "default")
    assert (team.home, team.store) == (home / "stores" / "team-a", "team-a")
    assert team.extract.batch == 7
    assert mine.config_file == team.config_file == home / "config.toml"
    for name in ("../x", "A", "", "a/b", "a" * 41):
        if name:
            assert "SLOWWAVE_STORE" in refused(home, text, SLOWWAVE_STORE=name)


def test_another_file_can_be_named(home: Path) -> None:
    (home / "other.toml").write_text("[extract]\nbatch = 9\n")
    settings = read(home, "[extract]\nbatch = 1\n", SLOWWAVE_CONFIG=str(home / "other.toml"))
    assert settings.extract.batch == 9
    assert settings.config_file == home / "other.toml"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SLOWWAVE_HOME": "/data", "HOME": "/h"}, "/data"),
        ({"HOME": "/h"}, "/h/.local/share/slowwave"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "/x/slowwave"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
def test_the_data_folder_follows_the_given_environment(environ: dict[str, str], expected: str) -> None:
    assert load(environ=environ).home == Path(expected)


def test_the_hosts_own_variables_are_handed_over_as_they_were(home: Path) -> None:
    settings = read(home, CODEX_HOME="/c", HOME="/h", CLAUDE_CONFIG_DIR="", SECRET="s")
    assert settings.host_environment == {"CODEX_HOME": "/c", "HOME": "/h"}


@pytest.mark.fault("X8")
def test_the_off_switch_is_read_afresh(home: Path) -> None:
    settings = read(home, "[memory]\nenabled = true\n")
    file = home / "config.toml"
    assert enabled_on_disk(settings)
    file.write_text("[memory]\nenabled = false\n")
    assert not enabled_on_disk(settings)
    file.write_text('[memory]\nmode = "off"\n')
    assert not enabled_on_disk(settings)
    for unreadable in ("[memory", "memory = 3"):
        file.write_text(unreadable)
        assert enabled_on_disk(settings)
    file.unlink()
    assert enabled_on_disk(settings)


@pytest.mark.fault("X8")
def test_what_the_environment_says_about_the_off_switch_stands_above_the_file(home: Path) -> None:
    on = read(home, "[memory]\nenabled = false\n", SLOWWAVE_MEMORY_ENABLED="true")
    off = read(home, "[memory]\nenabled = true\n", SLOWWAVE_MEMORY_ENABLED="false")
    (home / "config.toml").write_text("[memory]\nenabled = false\n")
    assert enabled_on_disk(on)
    (home / "config.toml").write_text("[memory]\nenabled = true\n")
    assert not enabled_on_disk(off)


# -- the document -----------------------------------------------------------------------------------------


def documented() -> dict[str, dict[str, tuple[str, str]]]:
    """Section -> key -> (default, meaning), from docs/settings.md."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    section = ""
    for line in DOCUMENT.read_text("utf-8").splitlines():
        if match := re.match(r"## \[(\w+)\]$", line):
            section = match[1]
            found[section] = {}
        elif match := re.match(r"\| `(\w+)` \| `(.*?)` \| (.+) \|$", line):
            assert match[1] not in found[section]
            found[section][match[1]] = (match[2], match[3])
    return found


def as_toml(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None:
        return '"none"'
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{item}"' for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def options(annotation: Any) -> set[str]:
    """The words a setting allows."""
    if typing.get_origin(annotation) is typing.Literal:
        return set(typing.get_args(annotation))
    arguments = typing.get_args(annotation) if not isinstance(annotation, types.UnionType) else ()
    return {word for argument in arguments for word in options(argument)}


def fields(section: str) -> dict[str, FieldInfo]:
    annotation = Settings.model_fields[section].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, BaseModel)
    return annotation.model_fields


def test_the_document_lists_every_setting_with_its_default_and_nothing_else() -> None:
    expected = {section: {key: as_toml(field) for key, field in fields(section).items()} for section in SECTIONS}
    written = {section: {key: default for key, (default, _) in keys.items()} for section, keys in documented().items()}
    assert written == expected


def test_the_document_names_every_word_a_setting_allows() -> None:
    for section, keys in documented().items():
        for key, (default, meaning) in keys.items():
            words = options(fields(section)[key].annotation)
            assert {word for word in words if f"`{word}`" not in meaning and f'"{word}"' != default} == set(), key


def test_the_document_names_every_reserved_variable() -> None:
    text = DOCUMENT.read_text("utf-8")
    assert [name for name in RESERVED if f"`SLOWWAVE_{name}`" not in text] == []


def test_the_documents_example_can_be_loaded(home: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert example is not None
    settings = read(home, example[1])
    assert settings.budget.prices["some-model"] == Price(input=0.25, output=2.0, cached_input=0.025)
    assert isinstance(settings.budget, BudgetSettings)


def test_settings_import_nothing_heavy() -> None:
    """A hook reads them at every turn."""
    code = "import sys, memory.settings; print([m for m in ('sqlalchemy', 'openai', 'prefect') if m in sys.modules])"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
