"""Search by meaning: what words miss is found, within scope; without the extra the words still do."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy
import pytest

from memory.testing import StoreBench
from recall.index import meaning
from recall.scope import Viewer
from recall.search import Searcher

SHOP, API = Viewer("aaaaaaaaaaaa", "shop"), Viewer("bbbbbbbbbbbb", "api")
CLOSING, ASKED = "Customers may return goods within thirty days.", "how long can buyers send purchases back"
OTHERS = ("The gateway listens on port 8080.", "Amounts are whole cents everywhere.", "Deploys happen on Tuesdays.")


def searcher(bench: StoreBench, *, semantic: bool = True) -> Searcher:
    index = bench.settings.index.model_copy(update={"semantic": semantic})
    return Searcher.of_settings(bench.settings.model_copy(update={"index": index}), store=bench.store)


def write(bench: StoreBench, texts: Sequence[str], project: str = "") -> None:
    for number, text in enumerate(texts):
        bench.workspace.write_note(f"n{project[:4]}{number}", text, project=project or None)


def nearest(found: Searcher, viewer: Viewer, asked: str) -> list[str]:
    return [hit.unit.text for hit in found.view(viewer).search(asked).hits]


class Counting:
    """Counts what it has to embed; a text's vector is the counts of its letters."""

    model = "letters 1"

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.embedded += texts
        rows = numpy.array([[1.0 + text.count(chr(97 + place)) for place in range(26)] for text in texts])
        return (rows / numpy.linalg.norm(rows, axis=1, keepdims=True)).astype("float32")


def test_what_no_word_of_the_question_says_is_found_by_its_meaning(bench: StoreBench) -> None:
    write(bench, [*OTHERS, CLOSING])
    assert nearest(searcher(bench, semantic=False), SHOP, ASKED) == []
    assert nearest(searcher(bench), SHOP, ASKED) == [CLOSING]


def test_a_question_in_another_language_finds_the_line(bench: StoreBench) -> None:
    write(bench, [*OTHERS, CLOSING])
    assert nearest(searcher(bench), SHOP, "顾客多少天内可以退货") == [CLOSING]


@pytest.mark.req("C023", "P017")
@pytest.mark.fault("O18")
def test_the_nearest_line_of_another_project_stays_out_of_sight(bench: StoreBench) -> None:
    write(bench, [CLOSING], project=API.id)
    write(bench, OTHERS, project=SHOP.id)
    found = searcher(bench)
    assert nearest(found, API, ASKED) == [CLOSING]
    assert CLOSING not in nearest(found, SHOP, ASKED)


def test_what_means_something_else_is_no_answer(bench: StoreBench) -> None:
    write(bench, [*OTHERS, CLOSING])
    assert not searcher(bench).view(SHOP).search("which bird lays the largest eggs").hits


def test_a_text_that_has_not_changed_is_embedded_once(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting()
    monkeypatch.setattr(meaning, "encoder", lambda: counting)
    monkeypatch.setattr(meaning, "model_name", lambda: counting.model)
    write(bench, OTHERS)
    found = searcher(bench)
    found.refresh()
    assert sorted(counting.embedded) == sorted(OTHERS)
    counting.embedded.clear()
    bench.workspace.write_note("one-more", CLOSING)
    found.refresh()
    assert counting.embedded == [CLOSING]


def test_who_waits_for_an_answer_has_a_few_texts_embedded_and_the_next_run_the_rest(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting()
    monkeypatch.setattr(meaning, "encoder", lambda: counting)
    monkeypatch.setattr(meaning, "model_name", lambda: counting.model)
    monkeypatch.setattr(meaning, "IMPATIENT", 2)
    write(bench, [*OTHERS, CLOSING])
    found = searcher(bench)
    assert found.view(SHOP).search("gateway port").hits
    assert len(set(counting.embedded) - {"gateway port"}) == 2
    assert found.refresh(), "the rest is work of its own, though no file has changed"
    assert set(counting.embedded) >= {*OTHERS, CLOSING}
    assert not found.refresh()


def test_without_the_extra_search_goes_by_words_and_the_log_says_what_to_install(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(meaning, "encoder", lambda: None)
    monkeypatch.setattr(meaning, "model_name", lambda: "")
    write(bench, OTHERS)
    with caplog.at_level(logging.WARNING):
        assert nearest(searcher(bench), SHOP, "gateway port")[0] == OTHERS[0]
    assert meaning.EXTRA in caplog.text


@pytest.mark.fault("M90")
def test_vectors_of_another_model_are_not_compared(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Counting(), Counting()
    other.model = "letters 2"
    write(bench, OTHERS)
    found = searcher(bench)
    for encoder in (one, other):
        monkeypatch.setattr(meaning, "encoder", lambda encoder=encoder: encoder)
        monkeypatch.setattr(meaning, "model_name", lambda encoder=encoder: encoder.model)
        found = searcher(bench)
        found.refresh()
    assert sorted(other.embedded) == sorted(OTHERS)
    assert {row[0] for row in found.index()._all("SELECT DISTINCT model FROM vectors", ())} == {"letters 2"}


def test_off_nothing_of_it_is_imported(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "encoder", lambda: pytest.fail("the encoder was asked for"))
    write(bench, OTHERS)
    assert nearest(searcher(bench, semantic=False), SHOP, "gateway port")
