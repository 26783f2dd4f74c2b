"""What a person does on the pages, with the mouse and with the keyboard alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from memory.settings import load
from tests.browser.stage import Stand

pytestmark = pytest.mark.browser


def test_a_line_leads_to_its_session_and_the_very_events_it_rests_on(shared: Stand, page: Page) -> None:
    page.goto(shared.url("/memory"))
    said = page.locator(".claim .text", has_text="Vitest").first.inner_text()
    page.locator(".claim", has_text="Vitest").first.locator(".cite").first.click()
    expect(page).to_have_url(re.compile(r"/sources/[0-9a-f]{8}$"))
    bullet = page.locator("li", has_text="Vitest").first
    bullet.locator("a.cite").first.click()
    expect(page).to_have_url(re.compile(r"/events\?e=\d+#e\d+$"))
    cited = page.locator(".event.cited")
    expect(cited).to_have_count(1)
    expect(cited).to_be_in_viewport()
    assert "Vitest" in cited.inner_text()
    assert "Vitest" in said


def test_a_line_is_forgotten_only_after_what_goes_with_it_was_shown(stand: Stand, page: Page) -> None:
    page.goto(stand.url("/memory"))
    before = page.locator(".claim").count()
    text = page.locator(".claim .text").first.inner_text()
    page.locator(".claim").first.get_by_role("link", name="Forget").click()
    expect(page.locator("main")).to_contain_text(text)
    page.locator("button.danger").click()
    expect(page.get_by_role("status").first).to_be_visible()
    assert page.locator(".claim", has_text=text).count() == 0
    assert page.locator(".claim").count() < before
    page.goto(stand.url("/history"))
    expect(page.locator("main")).not_to_contain_text(text)


def test_a_former_version_is_compared_and_restored(stand: Stand, page: Page) -> None:
    page.goto(stand.url("/history/compare?a=1&b=2"))
    assert page.locator("td.add").count() > 0
    page.goto(stand.url("/history/1/restore"))
    page.locator("main form button").first.click()
    expect(page.get_by_role("status").first).to_contain_text("1")
    page.goto(stand.url("/memory"))
    expect(page.locator("main")).to_contain_text("Version 3")


def test_memory_is_cleared_by_typing_its_name_and_the_proof_is_shown(stand: Stand, page: Page) -> None:
    page.goto(stand.url("/settings/clear"))
    page.get_by_label("To go on").fill("defualt")
    page.get_by_role("button", name="Clear long memory for good").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was cleared")
    page.get_by_label("To go on").fill("default")
    page.get_by_role("button", name="Clear long memory for good").click()
    expect(page.locator("h1")).to_have_text("Cleared")
    assert page.locator("tbody td.number").all_inner_texts() == ["0"] * 6
    page.goto(stand.url("/memory"))
    assert page.locator(".claim").count() == 0


def test_a_bad_setting_is_refused_where_it_was_typed_and_a_good_one_is_saved(stand: Stand, page: Page) -> None:
    page.goto(stand.url("/settings"))
    field = page.get_by_label("Idle for at least (hours)")
    group = page.locator("section", has=page.locator("#windows"))
    field.fill("-3")
    group.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("extract.idle_hours")
    expect(page.get_by_label("Idle for at least (hours)")).to_have_value("-3")
    expect(page.get_by_label("Idle for at least (hours)")).to_have_attribute("aria-invalid", "true")
    assert load(home=stand.site.home).extract.idle_hours == 0
    page.get_by_label("Idle for at least (hours)").fill("2")
    group.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").first).to_contain_text("Saved: extract.idle_hours")
    assert load(home=stand.site.home).extract.idle_hours == 2


def test_a_settings_file_that_is_broken_is_named_with_its_line(stand: Stand, page: Page) -> None:
    (stand.site.home / "config.toml").write_text("[memory]\nmode = long\n", encoding="utf-8")
    page.goto(stand.url("/memory"))
    expect(page.locator("main")).to_contain_text("is not valid TOML")
    expect(page.locator("main")).to_contain_text("line 2")


def test_a_host_is_installed_after_its_files_were_shown(stand: Stand, page: Page) -> None:
    (stand.site.home.parent / ".codex").mkdir()
    page.goto(stand.url("/settings/hosts"))
    page.get_by_role("link", name="Install: Codex CLI").click()
    expect(page.locator("main li").first).to_contain_text(".codex")
    page.get_by_role("button", name="Install").click()
    expect(page.get_by_role("status").first).to_contain_text("codex")
    expect(page.locator("section", has_text="Codex CLI").locator(".tag")).to_have_text("installed")
    page.get_by_role("link", name="Uninstall: Codex CLI").click()
    page.get_by_role("button", name="Uninstall").click()
    expect(page.locator("section", has_text="Codex CLI").locator(".tag")).to_have_text("not installed")
    assert list((stand.site.home.parent / ".codex").iterdir()) == []


# -- the keyboard alone -------------------------------------------------------------------------------


def _tab_to(page: Page, name: str, *, limit: int = 80) -> None:
    """Presses Tab until what has the focus is called so."""
    for _ in range(limit):
        page.keyboard.press("Tab")
        here = page.evaluate(
            "() => { const e = document.activeElement; return e.getAttribute('aria-label') || e.innerText || e.value }"
        )
        if str(here).strip().startswith(name):
            return
    raise AssertionError(f"{name} was not reached")


def test_the_first_key_reaches_the_content_and_every_focus_can_be_seen(shared: Stand, page: Page) -> None:
    page.goto(shared.url("/memory"))
    _tab_to(page, "Skip to the content", limit=1)
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    _tab_to(page, "Show")
    style = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(style) == "solid"
    page.keyboard.press("Tab")
    assert page.evaluate(style) == "solid"


def test_a_source_is_followed_and_a_run_asked_for_with_the_keyboard_alone(shared: Stand, page: Page) -> None:
    page.goto(shared.url("/memory"))
    _tab_to(page, "Why is this here?" if page.get_by_label("Why is this here?").count() else "Why")
    page.keyboard.press("Enter")
    page.wait_for_url("**/memory/lines/*")
    page.goto(shared.url("/runs"))
    _tab_to(page, "What would it cost?")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("What a run would cost")


def test_a_list_of_settings_is_checked_as_one_types_and_saved_an_entry_a_line(stand: Stand, page: Page) -> None:
    page.goto(stand.url("/settings"))
    field = page.get_by_label("Further patterns of secrets")
    field.press_sequentially("ACME-[0-9]{6}")
    field.press("Enter")
    field.press_sequentially("(?=x")
    complaint = page.locator("#redact-extra_patterns-complaint")
    expect(complaint).to_contain_text("pattern 2")
    expect(field).to_have_attribute("aria-invalid", "true")
    for _ in "(?=x":
        field.press("Backspace")
    expect(complaint).to_have_text("")
    page.locator("section.card", has=page.locator("#redact")).get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("Saved: redact.extra_patterns")
    assert load(home=stand.site.home).redact.extra_patterns == ("ACME-[0-9]{6}",)
