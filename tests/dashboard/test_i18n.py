"""The words of the pages."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest

import dashboard
from dashboard import i18n
from memory.model import HEADINGS, Outcome, Reason, Tier
from memory.state.browse import FATES
from tests.plugins.dashboard_site import Site

ROOM = Path(dashboard.__file__).parent


def test_every_key_has_a_text_in_both_languages() -> None:
    for key, texts in i18n.catalog().items():
        assert set(texts) == set(i18n.LANGUAGES), key
        assert all(text.strip() for text in texts.values()), key


def test_both_languages_of_a_key_have_the_same_fields() -> None:
    for key, texts in i18n.catalog().items():
        fields = [{name for _, name, _, _ in string.Formatter().parse(text) if name} for text in texts.values()]
        assert fields[0] == fields[1], key


@pytest.mark.parametrize(("n", "said"), [(0, "0 more lines"), (1, "1 more line"), (12_000, "12,000 more lines")])
def test_a_count_stands_with_the_word_that_goes_with_it(n: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(i18n, "catalog", lambda: {"x": {"en": "{n} more {n:line|lines}", "zh": "另有 {n} 行"}})
    assert i18n.translate("en", "x", n=n) == said


MANY = (
    "bytes calls changes characters days entries events files histories lines notes ones requests rounds sessions"
    " sources summaries tokens uses versions wake-ups"
).split()


def test_no_text_speaks_of_one_thing_as_of_many() -> None:
    for key, texts in i18n.catalog().items():
        fields = {name: 20 if name == "max" else 1 for _, name, _, _ in string.Formatter().parse(texts["en"]) if name}
        said = i18n.translate("en", key, **fields)
        assert set(
            re.findall(r"\b1 (?:(?:more|model|session|unproven|forgotten|later) )*([a-z-]+)\b", said)
        ).isdisjoint(MANY)


PRODUCTS = {"Codex CLI", "Claude Code"}


def test_chinese_texts_are_chinese() -> None:
    same = [
        key
        for key, texts in i18n.catalog().items()
        if texts["zh"] == texts["en"] not in PRODUCTS and re.search("[a-z]{4}", re.sub(r"{\w+}", "", texts["en"]))
    ]
    assert same == []


def test_every_key_a_template_or_a_page_uses_exists() -> None:
    used: dict[str, str] = {}
    for path in sorted((ROOM / "templates").glob("*.html")):
        for key in re.findall(r"""\bt\(\s*["']([\w.]+)["']""", path.read_text(encoding="utf-8")):
            used[key] = path.name
    for path in sorted(ROOM.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_key(node.value):
                used[node.value] = path.name
    assert len(used) > 20
    assert {key: place for key, place in used.items() if not i18n.known(key)} == {}


def _is_key(text: str) -> bool:
    """A literal that looks like a key of one of our files: `memory.title`, not `memory.html`."""
    area = text.partition(".")[0]
    return bool(re.fullmatch(r"[a-z]+(\.[a-z_]+)+", text)) and area in AREAS and not text.endswith((".html", ".json"))


AREAS = {path.stem for path in (ROOM / "strings").glob("*.json")} | {"nav", "common", "error", "login", "ago"}


@pytest.mark.parametrize(
    ("cookie", "setting", "accept", "expected"),
    [
        (None, "auto", None, "en"),
        (None, "auto", "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        (None, "auto", "de,en;q=0.5,zh;q=0.4", "en"),
        (None, "zh", "en", "zh"),
        ("en", "zh", "zh", "en"),
        ("xx", "auto", "zh;q=nonsense,en", "en"),
    ],
)
def test_the_switch_stands_before_the_setting_and_the_setting_before_the_browser(
    cookie: str | None, setting: str, accept: str | None, expected: str
) -> None:
    assert i18n.choose(cookie, setting, accept) == expected


@pytest.mark.parametrize(
    ("form", "fields", "back"),
    [
        ("/runs/plan", {"stage": "all"}, "/runs"),
        ("/settings/groups/windows", {"extract.batch": "many"}, "/settings"),
        ("/settings/prices", {"model": ""}, "/settings"),
        ("/settings/doctor", {}, "/settings/doctor"),
        ("/memory/lines/0123456789abcdef/pin", {}, "/memory/lines/0123456789abcdef"),
        ("/new-note", {"text": ""}, "/new-note"),
    ],
)
def test_the_language_can_be_switched_on_a_page_that_answers_a_form(
    site: Site, form: str, fields: dict[str, str], back: str
) -> None:
    page = site.post(form, fields)
    assert f'name="back" value="{back}"' in page.text
    assert site.post("/language", {"to": "zh", "back": back}).status_code in (200, 404)


def test_every_word_the_data_may_hold_has_a_text() -> None:
    words = [f"reason.{one.value}" for one in Reason] + [f"tier.{one.value}" for one in Tier]
    words += [f"outcome.{one.value}" for one in Outcome] + [f"heading.{one}" for one in HEADINGS]
    words += [f"fate.{one}" for one in FATES] + ["reason.none"]
    words += [f"change.{one}" for one in ("added", "removed", "superseded", "merged", "reworded")]
    assert [word for word in words if not i18n.known(word)] == []


def test_every_file_a_template_names_is_there() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOM / "templates").glob("*.html")]
    files = {name for text in texts for name in re.findall(r"/static/([\w.-]+)", text)}
    assert {"style.css", "app.js", "icon.svg"} <= files
    assert [name for name in files if not (ROOM / "static" / name).is_file()] == []
    pages = {name for text in texts for name in re.findall(r'{% (?:extends|import) "([\w.]+)"', text)}
    assert [name for name in pages if not (ROOM / "templates" / name).is_file()] == []
