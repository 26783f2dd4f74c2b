"""Settings on the page and over the API: what holds, where it comes from, what is written and what never is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dashboard import options
from memory.clock import SystemClock
from memory.settings import Settings, load
from memory.state import Ledger, Store
from tests.plugins.dashboard_site import Site, serving

KEY = "sk-" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def _mark(site: Site) -> str:
    found = re.search(r'name="mark" value="([0-9a-f]{16})"', site.text("/settings"))
    assert found
    return found[1]


def _file(site: Site) -> str:
    return (site.home / "config.toml").read_text(encoding="utf-8")


def _fields(site: Site, group: str, **changed: str) -> dict[str, str]:
    """What a browser would send: every field as it stands, but for the changed ones (`extract__batch`)."""
    found = options.known(load(home=site.home))
    fields = {}
    for option in options.GROUPS[group]:
        value = found.value(option.section, option.key)
        if value.origin != "environment":
            fields[option.name] = option.shown(value)
            fields |= {f"{option.name}.{one}": "1" for one in value.entries if option.kind == "set"}
    return fields | {name.replace("__", "."): text for name, text in changed.items()} | {"mark": _mark(site)}


def _token(site: Site) -> dict[str, str]:
    return {"x-csrf-token": site.get("/api/v1/session").json()["csrf_token"]}


def test_a_group_that_is_sent_back_as_it_stands_writes_nothing(new_site: Site) -> None:
    before = _file(new_site)
    for group in options.GROUPS:
        answer = new_site.post(f"/settings/groups/{group}", _fields(new_site, group))
        assert "nothing was written" in answer.text, group
    assert _file(new_site) == before


def test_a_change_writes_its_own_line_and_is_said(new_site: Site) -> None:
    before = _file(new_site)
    answer = new_site.post("/settings/groups/windows", _fields(new_site, "windows", extract__batch="7"))
    assert "Saved: extract.batch. It holds from the next run on" in answer.text
    assert _file(new_site) == before.replace("batch = 20", "batch = 7")
    assert load(home=new_site.home).extract.batch == 7


def test_a_list_is_changed_an_entry_on_each_line_and_its_comments_stay(new_site: Site) -> None:
    path = new_site.home / "config.toml"
    path.write_text('[redact]\nextra_patterns = [\n  # of the firm\n  "ACME-[0-9]{6}",  # orders\n]\n', "utf-8")
    asked = _fields(new_site, "redact", redact__extra_patterns="ACME-[0-9]{6}\n\n  \\bXY[A-Z]{9}  \r\n\\bXY[A-Z]{9}")
    assert "Saved: redact.extra_patterns" in new_site.post("/settings/groups/redact", asked).text
    assert _file(new_site) == (
        "[redact]\nextra_patterns = [\n  # of the firm\n  \"ACME-[0-9]{6}\",  # orders\n  '\\bXY[A-Z]{9}',\n]\n"
    )
    emptied = _fields(new_site, "redact", redact__extra_patterns="")
    assert "Saved" in new_site.post("/settings/groups/redact", emptied).text
    assert load(home=new_site.home).redact.extra_patterns == ()


def test_a_pattern_that_is_none_is_refused_before_it_could_stop_every_run(new_site: Site) -> None:
    before = _file(new_site)
    answer = new_site.post("/settings/groups/redact", _fields(new_site, "redact", redact__extra_patterns="fine\n(?=x"))
    assert answer.status_code == 400
    assert "redact.extra_patterns, pattern 2" in answer.text
    assert ">\nfine\n(?=x</textarea>" in answer.text
    assert _file(new_site) == before


def test_hosts_are_chosen_by_boxes_and_folders_are_kept_as_they_were_written(new_site: Site) -> None:
    path = new_site.home / "config.toml"
    path.write_text('[rollouts]\nhosts = ["pi"]\ngeneric_roots = ["~/logs"]\n', "utf-8")
    page = new_site.text("/settings")
    assert re.findall(r'name="rollouts.hosts.(\w+)" value="1" checked', page) == ["pi"]
    sent = _fields(new_site, "sessions", rollouts__generic_roots="~/logs\n/srv/logs") | {"rollouts.hosts.codex": "1"}
    assert "Saved: rollouts.hosts, rollouts.generic_roots" in new_site.post("/settings/groups/sessions", sent).text
    now = load(home=new_site.home).rollouts
    assert now.hosts == ("codex", "pi")
    assert now.generic_roots == (Path("~/logs").expanduser(), Path("/srv/logs"))
    assert '"~/logs"' in _file(new_site)


@pytest.mark.parametrize(
    ("name", "text", "ok", "says"),
    [
        ("redact.allow_patterns", "[a-z", False, "redact.allow_patterns, pattern 1"),
        ("redact.allow_patterns", "[a-z]+\n\n\\d", True, ""),
        ("rollouts.pi_roots", "/nowhere/at/all", True, "not there now: /nowhere/at/all"),
        ("extract.idle_hours", "soon", False, "is no number"),
        ("extract.idle_hours", "-1", False, "extract.idle_hours"),
        ("extract.idle_hours", "", True, ""),
        ("schedule.cron", "0 3 * * *", True, ""),
    ],
)
def test_a_value_is_checked_as_one_types_and_nothing_is_written(
    site: Site, name: str, text: str, ok: bool, says: str
) -> None:
    before = _file(site)
    answer = site.browser.post("/api/v1/checks/setting", json={"name": name, "text": text}, headers=_token(site))
    assert answer.status_code == 200
    assert (answer.json()["ok"], says in answer.json()["says"]) == (ok, True)
    assert _file(site) == before


def test_a_key_is_never_sent_to_be_checked(site: Site) -> None:
    assert (
        site.browser.post(
            "/api/v1/checks/setting", json={"name": "model.api_key", "text": KEY}, headers=_token(site)
        ).status_code
        == 400
    )
    field = re.search(r'<input id="model-api_key"[^>]*>', site.text("/settings"))
    assert field
    assert "data-check" not in field[0]


def test_a_switch_a_limit_and_an_emptied_field_are_written_as_they_are_meant(new_site: Site) -> None:
    new_site.post("/settings/groups/memory", _fields(new_site, "memory", memory__enabled="no", memory__mode="short"))
    new_site.post(
        "/settings/groups/budget",
        _fields(new_site, "budget", budget__day_tokens="", budget__day_money="2.5", budget__run_tokens="3,000,000"),
    )
    new_site.post(
        "/settings/groups/windows", _fields(new_site, "windows", extract__idle_hours="0.5", extract__batch="")
    )
    data = tomllib.loads(_file(new_site))
    assert data["memory"] == {"mode": "short", "enabled": False}
    assert data["budget"] == {"day_tokens": "none", "day_money": 2.5, "run_tokens": 3_000_000}
    assert data["extract"] == {"idle_hours": 0.5, "max_age_days": 36500}
    now = load(home=new_site.home)
    assert (now.budget.day_tokens, now.budget.day_money, now.extract.batch) == (None, 2.5, 2)


def test_a_form_that_lacks_fields_takes_nothing_away(new_site: Site) -> None:
    before = _file(new_site)
    for group in options.GROUPS:
        new_site.post(f"/settings/groups/{group}", {"mark": _mark(new_site)})
    assert _file(new_site) == before


@pytest.mark.parametrize(
    ("group", "field", "text", "says"),
    [
        ("windows", "extract__idle_hours", "-1", "extract.idle_hours"),
        ("windows", "extract__batch", "2.5", "no whole number"),
        ("windows", "extract__batch", "many", "no number"),
        ("budget", "budget__day_money", "1 dollar", "no number"),
        ("memory", "memory__mode", "loud", "memory.mode"),
        ("schedule", "schedule__every_minutes", "0", "schedule.every_minutes"),
        ("schedule", "schedule__every_minutes", "nan", "schedule.every_minutes"),
        ("model", "model__provider", "openai", "no model is named"),
    ],
)
def test_a_bad_value_is_refused_with_our_message_and_what_was_typed(
    new_site: Site, group: str, field: str, text: str, says: str
) -> None:
    before = _file(new_site)
    answer = new_site.post(f"/settings/groups/{group}", _fields(new_site, group, **{field: text}))
    assert answer.status_code == 400
    assert says in answer.text
    assert f'value="{text}"' in answer.text or group == "memory"  # a browser cannot send another choice
    assert 'role="alert"' in answer.text
    assert _file(new_site) == before


def test_a_page_that_is_older_than_the_file_does_not_write_over_it(new_site: Site) -> None:
    fields = _fields(new_site, "windows", extract__batch="3")
    path = new_site.home / "config.toml"
    path.write_text(_file(new_site) + "\n# by hand\n", encoding="utf-8")
    answer = new_site.post("/settings/groups/windows", fields)
    assert answer.status_code == 409
    assert "was changed meanwhile" in answer.text
    assert 'name="extract.batch" value="3"' in answer.text
    assert "# by hand" in _file(new_site)
    assert "batch = 20" in _file(new_site)


def test_a_key_is_never_shown_stays_when_its_field_is_empty_and_goes_when_asked(new_site: Site) -> None:
    new_site.post("/settings/groups/model", _fields(new_site, "model", model__api_key=KEY, model__name="m"))
    assert tomllib.loads(_file(new_site))["model"] == {"api_key": KEY, "name": "m"}
    for path in ("/settings", "/settings/all", "/api/v1/settings"):
        assert KEY not in new_site.get(path).text
    assert "set; not shown" in new_site.text("/settings")
    new_site.post("/settings/groups/model", _fields(new_site, "model", model__name="n"))
    assert tomllib.loads(_file(new_site))["model"] == {"api_key": KEY, "name": "n"}
    new_site.post("/settings/groups/model", _fields(new_site, "model") | {"model.api_key.remove": "1"})
    assert tomllib.loads(_file(new_site))["model"] == {"name": "n"}


@pytest.mark.parametrize("address", ["http://u:hunter2@h/v1", "http://h/v1?key=hunter2"])
def test_an_address_with_a_password_in_it_is_treated_as_a_key(new_site: Site, address: str) -> None:
    new_site.post("/settings/groups/model", _fields(new_site, "model", model__base_url=address))
    for path in ("/settings", "/settings/all", "/api/v1/settings"):
        assert "hunter2" not in new_site.get(path).text


def test_a_price_is_set_changed_and_removed(new_site: Site) -> None:
    answer = new_site.post(
        "/settings/prices", {"model": "m-1.5", "input": "0.25", "output": "2", "mark": _mark(new_site)}
    )
    assert "Saved: budget.prices.m-1.5" in answer.text
    assert load(home=new_site.home).budget.prices["m-1.5"].output == 2
    bad = new_site.post("/settings/prices", {"model": "x", "input": "a", "output": "2", "mark": _mark(new_site)})
    assert bad.status_code == 400
    new_site.post("/settings/prices", {"model": "m-1.5", "remove": "1", "mark": _mark(new_site)})
    assert load(home=new_site.home).budget.prices == {}


def _from_environment(home: Path) -> Settings:
    environ = {
        "SLOWWAVE_HOME": str(home),
        "HOME": str(home),
        "SLOWWAVE_MEMORY_MODE": "long",
        "SLOWWAVE_EXTRACT_BATCH": "9",
        "OPENAI_API_KEY": KEY,
        "SLOWWAVE_BUDGET_PRICES": "{m = {input = 1, output = 2}}",
    }
    return load(environ=environ)


def test_what_the_environment_says_is_shown_with_its_reason_and_cannot_be_changed(tmp_path: Path) -> None:
    home = tmp_path / "data"
    with serving(home, load=lambda: _from_environment(home)) as site:
        text = site.text("/settings")
        assert "Set by SLOWWAVE_EXTRACT_BATCH in the environment" in text
        assert "Set by OPENAI_API_KEY in the environment" in text
        assert "Set by SLOWWAVE_BUDGET_PRICES in the environment" in text
        assert 'name="extract.batch"' not in text
        assert KEY not in text
        fields = {"mark": _mark(site), "extract.batch": "1", "extract.idle_hours": "6"}
        site.post("/settings/groups/windows", fields)
        assert "batch" not in (home / "config.toml").read_text() if (home / "config.toml").exists() else True
        change = {"mark": _mark(site), "values": {"extract.batch": 1}}
        assert site.browser.patch("/api/v1/settings", json=change, headers=_token(site)).status_code == 400


def test_where_each_value_comes_from_is_told(new_site: Site) -> None:
    found = {one["name"]: one for one in new_site.get("/api/v1/settings").json()["settings"]}
    assert found["memory.mode"]["origin"] == "file"
    assert found["memory.language"]["origin"] == "default"
    assert found["state.url"] | {"text": "", "is_set": False, "secret": True} == found["state.url"]
    assert not found["state.url"]["editable"]


def test_settings_are_changed_through_the_api_all_or_none(new_site: Site) -> None:
    mark = new_site.get("/api/v1/settings").json()["mark"]
    before = _file(new_site)

    def patch(values: dict[str, Any]) -> int:
        answer = new_site.browser.patch(
            "/api/v1/settings", json={"mark": mark, "values": values}, headers=_token(new_site)
        )
        return answer.status_code

    assert patch({"extract.batch": 3, "extract.idle_hours": -1}) == 400
    assert patch({"state.url": "sqlite:///x"}) == 400
    assert patch({"nothing.x": 1}) == 400
    assert _file(new_site) == before
    assert patch({"extract.batch": 3}) == 200
    assert patch({"extract.batch": 4}) == 409
    assert load(home=new_site.home).extract.batch == 3


# -- the model ----------------------------------------------------------------------------------------


def test_the_built_in_engine_is_said_to_need_no_network(new_site: Site) -> None:
    assert "the built-in engine offline-extractive-1 answers" in new_site.post("/settings/test-model").text


def test_a_model_that_does_not_answer_is_written_down_and_its_key_is_not_shown(new_site: Site) -> None:
    fields = _fields(new_site, "model", model__base_url="http://127.0.0.1:9", model__name="m", model__api_key=KEY)
    new_site.post("/settings/groups/model", fields)
    path = new_site.home / "config.toml"
    path.write_text(_file(new_site).replace("[model]", "[model]\nretries = 0"), encoding="utf-8")
    answer = new_site.post("/settings/test-model")
    assert "the test failed" in answer.text
    assert KEY not in answer.text
    clock = SystemClock()
    settings = load(home=new_site.home)
    with Store.open(settings, clock) as store:
        (row,) = Ledger(store, settings.budget, clock, "x").rows()
    assert (row.role, row.model, row.state) == ("test", "m", "settled")


# -- hosts, doctor, clear -----------------------------------------------------------------------------


def test_a_host_is_set_up_only_after_what_it_changes_was_shown(new_site: Site) -> None:
    assert "Codex CLI is there" in new_site.text("/settings/hosts")
    shown = new_site.text("/settings/hosts/codex/install")
    assert "~/.codex/hooks.json" in shown
    assert "codex was set up" in new_site.post("/settings/hosts/codex/install").text
    assert "codex is as it was" in new_site.post("/settings/hosts/codex/uninstall").text
    assert new_site.ports.asked == [("install", "codex"), ("uninstall", "codex")]
    assert new_site.post("/settings/hosts/nobody/install").status_code == 404
    assert new_site.get("/settings/hosts/codex/destroy").status_code == 422


def test_the_doctor_tells_what_it_finds_and_mends_what_is_safe(site: Site) -> None:
    stray = next((site.home / "generations").iterdir()) / "memories_v2" / "rollout_summaries" / ("0" * 16 + ".md")
    stray.write_text("---\n", encoding="utf-8")
    assert "belongs to no extraction" in site.text("/settings/doctor")
    assert any(one["level"] == "warning" for one in site.get("/api/v1/doctor").json())
    assert stray.exists()
    mended = site.post("/settings/doctor").text
    assert "was set aside" in mended
    assert not stray.exists()
    assert site.browser.post("/api/v1/doctor/fix", headers=_token(site)).json() == {"lines": []}


def test_a_doctor_works_where_the_state_cannot_be_opened(site: Site) -> None:
    (site.home / "state.db").write_bytes(b"not a database, by no means" * 100)
    for left in ("state.db-wal", "state.db-shm"):
        (site.home / left).unlink(missing_ok=True)
    assert site.get("/memory").status_code == 500
    assert "error" in site.text("/settings/doctor")


def test_clearing_needs_the_name_of_the_store_and_ends_with_its_proof(site: Site) -> None:
    page = site.text("/settings/clear")
    assert "type the name of this store: default" in page
    refused = site.post("/settings/clear", {"name": "Default!"})
    assert refused.status_code == 400
    assert "Nothing was cleared" in refused.text
    assert 'class="claim"' in site.text("/memory")
    done = site.post("/settings/clear", {"name": "default"}).text
    assert "nothing of it is left" in done
    assert re.findall(r'<td class="number">(\d+)</td>', done) == ["0"] * 6
    assert 'class="claim"' not in site.text("/memory")


def test_clearing_over_the_api_asks_for_the_name_too(site: Site) -> None:
    assert site.get("/api/v1/clear").json()["summary"] is True
    token = _token(site)
    assert site.browser.post("/api/v1/clear", json={"store": "other"}, headers=token).status_code == 400
    assert site.browser.post("/api/v1/clear", json={"store": "default"}).status_code == 403
    assert site.browser.post("/api/v1/clear", json={"store": "default"}, headers=token).json()["clean"] is True


def test_every_option_of_the_page_is_a_setting_with_words_in_both_languages() -> None:
    from dashboard import i18n

    for option in options.OPTIONS.values():
        assert option.key in type(getattr(Settings(home=Path("/x")), option.section)).model_fields
        assert i18n.known(f"option.{option.name}"), option.name
        for choice in option.choices:
            assert i18n.known(f"choice.{option.key}.{choice}"), (option.name, choice)
