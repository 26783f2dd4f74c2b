"""What the program says of itself, on Chinese pages: held to the source that says it."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from dashboard import sayings
from memory.settings import ExtractSettings, MemorySettings
from tests.plugins.dashboard_site import Site
from tests.plugins.said_texts import every_text, shown_texts

COMMANDS = re.compile(r"(slowwave|chmod)( \S+)*")
FOREIGN = Path(sayings.__file__).parent / "said" / "system.json"


def _own() -> dict[str, str]:
    foreign = set(json.loads(FOREIGN.read_text("utf-8")))
    return {key: text for key, text in sayings.catalog().items() if key not in foreign}


def test_every_error_and_finding_a_page_may_show_has_a_chinese_text() -> None:
    known = sayings.catalog()
    lacking = {text: place for text, place in shown_texts().items() if text not in known}
    lacking = {text: place for text, place in lacking.items() if not COMMANDS.fullmatch(text)}
    assert lacking == {}, "say it in Chinese in dashboard/said/"
    assert len(shown_texts()) > 300


def test_every_text_that_is_translated_is_still_said_by_the_program() -> None:
    assert sorted(set(_own()) - every_text()) == [], "nobody says it any more: take it out of dashboard/said/"


def test_a_chinese_text_is_chinese_and_has_no_field_the_english_one_lacks() -> None:
    for english, chinese in sayings.catalog().items():
        assert re.search(r"[\u4e00-\u9fff]", chinese), english
        assert set(re.findall(r"\{(\w+)(?::n)?\}", chinese)) <= set(re.findall(r"\{(\w+)\}", english)), english


def test_every_text_is_found_again_with_its_fields_where_they_belong() -> None:
    for english, chinese in sayings.catalog().items():
        names = re.findall(r"\{(\w+)\}", english)
        said = re.sub(r"\{(\w+)\}", lambda match: f"9{match[1]}x", english)
        told = sayings.own("zh", said)
        assert all(f"9{name}x" in told for name in names if f"{{{name}}}" in chinese), (english, told)
        assert re.search(r"[\u4e00-\u9fff]", told), english


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("The candidate still breaks 3 rules after 1 request.", "经过 1 次请求，候选摘要仍违反 3 条规则。"),
        ("There is no version 7. `slowwave history` lists them.", "没有版本 7。`slowwave history` 会列出它们。"),
        ("/a could not be written (Permission denied).", "无法写入 /a（权限不足）。"),
        ("It has more than the 9,000 bytes allowed.", "超过允许的 9,000 字节。"),
        ("Somebody else said this. Nothing was changed.", "Somebody else said this. 没有任何更改。"),
        ("Never heard of {0}", "Never heard of {0}"),
        ("The last consolidation failed (quota)", "上次整合失败（quota）"),
        ("", ""),
    ],
)
def test_a_text_is_told_with_its_numbers_its_hint_and_what_is_not_known_as_it_is(english: str, chinese: str) -> None:
    assert sayings.own("zh", english) == chinese
    assert sayings.own("en", english) == english


def test_what_the_system_and_the_settings_library_say_is_known_as_they_say_it() -> None:
    for code in (errno.EACCES, errno.ENOSPC, errno.EROFS, errno.ENOENT, errno.EISDIR, errno.EIO):
        assert sayings.own("zh", os.strerror(code)) != os.strerror(code)
    for values in ({"batch": -1}, {"batch": "x"}, {"idle_hours": "x"}, {"max_age_days": 0}, {"batch": 10**6}):
        with pytest.raises(ValidationError) as caught:
            ExtractSettings.model_validate(values)
        says = caught.value.errors()[0]["msg"]
        assert sayings.own("zh", says) != says
    with pytest.raises(ValidationError) as caught:
        MemorySettings.model_validate({"mode": "loud"})
    assert sayings.own("zh", caught.value.errors()[0]["msg"]).startswith("应为 ")


def test_a_long_text_that_nobody_knows_costs_no_time() -> None:
    assert sayings.own("zh", "a: b " * 700).startswith("a: b")


@pytest.mark.parametrize("count", [15, 150])
def test_a_text_made_to_have_many_readings_is_told_all_the_same(count: int) -> None:
    """With every reading tried this takes longer than anybody waits."""
    told = sayings.own("zh", "Nothing is known of a. " * count + "Never heard of it")
    assert told.count("没有关于 a 的记录。") == count
    for pattern in sayings._patterns():
        sayings.own("zh", pattern.pieces[0] + "".join(pattern.pieces[1:-1]) * 50 + "x")


def test_chinese_pages_say_what_went_wrong_in_chinese_and_programs_hear_it_in_english(site: Site) -> None:
    chinese = {"accept-language": "zh-CN"}
    page = site.get("/history/999", **chinese)
    assert page.status_code == 404
    assert "没有版本 999" in page.text
    assert "There is no version 999" in site.get("/history/999").text
    assert site.get("/api/v1/history/999", **chinese).json()["detail"] == "There is no version 999."
    doctor = site.get("/settings/doctor", **chinese).text
    assert "文件系统" in doctor
    assert "file system" not in doctor


def test_a_chinese_page_without_words_of_sessions_has_no_english_sentence(read_site: Site) -> None:
    (run,) = re.findall(r'href="(/runs/\d{8}T[\w-]+)"', read_site.text("/runs"))
    sessions = re.findall(r'href="(/sessions/[0-9a-f]{16})"', read_site.text("/sessions"))
    parts = ("", "/hosts", "/doctor", "/all", "/clear")
    for path in ("/sessions", "/runs", run, "/costs", "/notes", *(f"/settings{part}" for part in parts), *sessions[:3]):
        page = read_site.get(path, **{"accept-language": "zh-CN"}).text
        ours = re.sub(r"<(code|pre|ol|ul)\b.*?</\1>", "", page.partition("<main")[2], flags=re.DOTALL)
        found = re.findall(r">[^<]*\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b[^<]*<", ours)
        assert [text for text in found if "Codex CLI is there" not in text] == [], path
