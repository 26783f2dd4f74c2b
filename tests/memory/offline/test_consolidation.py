"""Stage 2 as a conversation, judged by the real gate: merging, scope, the later word, size, stability, repair."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from consolidate.tools import TOOLS
from memory.documents import citations, claims
from memory.llm.base import Message
from memory.model import HEADINGS
from memory.offline import OfflineModel
from memory.offline.agent import next_turn

PROFILE, PREFERENCES, TIPS, INDEX = HEADINGS
Build = type[Any]
Call = Callable[..., Any]


@pytest.fixture
def said(evidence: Build, stored: Call) -> Call:
    """A stored record of a session in which a person said these things on a day."""

    def make(*texts: str, day: int = 0, project: str = "shop", session: str = "") -> Any:
        log = evidence(day)
        for text in texts:
            log.human(text).closes("ok")
        record = stored(str(log), session or f"{project}-{day}", project)
        assert record is not None
        return record

    return make


def test_it_reads_everything_writes_once_and_says_done(said: Call, space: Call, stage2: Call) -> None:
    records = [said("Never push to main.", day=1), said("以后 commit 信息统一用中文。", day=2, project="api")]
    notes = [("deploy", "Deploys go through CI only.", False)]
    done = stage2(space(records, notes))
    assert done.verdict.passed
    assert done.repairs == 0
    turns = [message for message in done.messages if message.role == "assistant"]
    first = [json.loads(call.arguments)["path"] for call in turns[0].tool_calls]
    assert first == [
        "phase2_workspace_diff.md",
        *(record.path for record in records),
        "extensions/ad_hoc/notes/deploy.md",
    ]
    assert [call.name for call in turns[1].tool_calls] == ["write"]
    assert (turns[2].content, turns[2].tool_calls) == ("done", ())
    assert done.section(PREFERENCES) == [
        "- Deploys go through CI only. [note:deploy]",
        f"- 在 `api` 中：以后 commit 信息统一用中文。 [{records[1].citation}]",
        f"- In `shop`: Never push to main. [{records[0].citation}]",
    ]


@pytest.mark.fault("M42")
def test_the_same_preference_in_six_sessions_is_one_line_with_six_citations(
    said: Call, space: Call, stage2: Call
) -> None:
    wordings = [
        "以后请用中文回答",
        "请用中文回复我",
        "以后都用中文回答我",
        "回复请用中文",
        "以后请用中文回复",
        "记住，用中文回答",
    ]
    records = [said(text, day=day) for day, text in enumerate(wordings)]
    lines = stage2(space(records)).section(PREFERENCES)
    assert len(lines) == 1
    assert set(citations(lines[0])) == {record.citation for record in records}


@pytest.mark.fault("X31")
def test_twelve_sessions_with_one_lesson_in_other_words_leave_few_lines(said: Call, space: Call, stage2: Call) -> None:
    wordings = [
        "Always run `make lint` before committing.",
        "always run make lint before you commit",
        "From now on run `make lint` before every commit.",
        "run `make lint` before committing, always",
        "Never commit without running `make lint`.",
        "please always run make lint before each commit",
    ]
    records = [said(text, day=day) for day, text in enumerate(wordings * 2)]
    done = stage2(space(records))
    assert done.verdict.passed
    assert len(done.section(PREFERENCES)) <= 2


@pytest.mark.fault("X25")
def test_a_rule_of_one_project_is_scoped_and_a_rule_of_two_is_not(said: Call, space: Call, stage2: Call) -> None:
    alone = said("Always use tabs here.", day=1, project="shop")
    assert stage2(space([alone])).section(PREFERENCES) == [f"- In `shop`: Always use tabs here. [{alone.citation}]"]
    other = said("Always use tabs here.", day=2, project="api")
    both = stage2(space([alone, other])).section(PREFERENCES)
    assert both == [f"- Always use tabs here. [{other.citation}] [{alone.citation}]"]


def test_a_rule_declared_for_all_projects_carries_no_scope(said: Call, space: Call, stage2: Call) -> None:
    record = said("In all my projects, never use default exports.", day=1)
    lines = stage2(space([record])).section(PREFERENCES)
    assert lines == [f"- In all my projects, never use default exports. [{record.citation}]"]


@pytest.mark.req("P047", "P057")
@pytest.mark.fault("M39", "M41", "O29")
@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("I love semicolons.", "I hate semicolons.", "hate"),
        ("From now on use npm.", "From now on use pnpm.", "pnpm"),
        (
            "New tests use Jest, and they go under tests/",
            "From now on use Vitest for all new tests, not Jest.",
            "Vitest",
        ),
        ("新增测试统一用 Jest。", "后续新增测试统一用 Vitest，历史 Jest 用例逐步迁移。", "Vitest"),
        ("We use Postgres.", "We have migrated to MySQL.", "MySQL"),
        ("我们用的是 Postgres。", "我们已经迁移到 MySQL 了。", "MySQL"),
    ],
)
def test_the_newer_statement_stays_visible_and_the_older_is_no_longer_current(
    said: Call, space: Call, stage2: Call, old: str, new: str, word: str
) -> None:
    first, second = said(old, day=1), said(new, day=2)
    before = stage2(space([first]))
    after = stage2(space([first, second]), before.text)
    assert after.verdict.passed
    assert len(after.section(PREFERENCES)) == 1
    assert word in after.section(PREFERENCES)[0]
    assert second.citation in after.section(PREFERENCES)[0]
    assert "added" in {change.kind for change in after.verdict.changes}
    # Given in one run from nothing, the inputs lead to the same line: it depends on them alone.
    assert stage2(space([first, second])).section(PREFERENCES) == after.section(PREFERENCES)
    for text in (after, stage2(space([first, second]))):
        [of_first] = [line for line in text.section(INDEX) if first.citation in line]
        [of_second] = [line for line in text.section(INDEX) if second.citation in line]
        assert "superseded" in of_first
        assert "superseded" not in of_second


@pytest.mark.fault("X25")
def test_a_new_rule_of_one_project_leaves_the_other_projects_rule_alone(said: Call, space: Call, stage2: Call) -> None:
    records = [
        said("From now on use npm.", day=1, project="shop"),
        said("From now on use pnpm.", day=2, project="api"),
    ]
    lines = stage2(space(records)).section(PREFERENCES)
    assert lines == [
        f"- In `api`: From now on use pnpm. [{records[1].citation}]",
        f"- In `shop`: From now on use npm. [{records[0].citation}]",
    ]


@pytest.mark.req("Z074", "Z089")
def test_its_own_result_is_a_fixed_point_to_the_byte(said: Call, space: Call, stage2: Call) -> None:
    records = [said("From now on use npm.", day=1), said("From now on use pnpm.", day=2), said("Never rebase.", day=3)]
    place = space(records, [("pin", "Backups run at 03:00.", True)])
    first = stage2(place)
    second = stage2(place, first.text)
    assert second.text == first.text
    assert [message for message in second.messages if any(call.name == "write" for call in message.tool_calls)] == []


@pytest.mark.req("Z074")
def test_five_cycles_without_a_new_fact_add_nothing(
    evidence: Build, stored: Call, said: Call, space: Call, stage2: Call
) -> None:
    records = [said("Never push to main.", day=1), said("以后都用 pnpm。", day=2)]
    text = stage2(space(records)).text
    for day in range(3, 8):
        log = evidence(day).human("what is the time complexity of quicksort?")
        log.closes("As your memory says: never push to main, and always use pnpm from now on.")
        assert stored(str(log), f"idle-{day}") is None
        again = stage2(space(records), text)
        assert again.text == text


def test_repeating_a_known_preference_adds_a_citation_and_no_text(said: Call, space: Call, stage2: Call) -> None:
    records = [said("Never push to main.", day=day) for day in range(12)]
    text, sizes = "", []
    for count in range(1, 13):
        done = stage2(space(records[:count]), text)
        assert done.verdict.passed
        text = done.text
        sizes.append(len(done.section(PREFERENCES)))
    assert sizes == [1] * 12
    assert len(citations(stage2(space(records), text).section(PREFERENCES)[0])) == 8


@pytest.mark.fault("X32")
def test_a_removed_source_is_cited_no_more_and_its_claims_go(said: Call, space: Call, stage2: Call) -> None:
    kept, gone = said("Never push to main.", day=1), said("Always sign commits.", day=2)
    before = stage2(space([kept, gone]))
    after = stage2(space([kept], removed=[gone.citation]), before.text)
    assert after.verdict.passed
    assert gone.citation not in after.text
    assert "Always sign" not in after.text
    assert "Never push to main." in after.text


def test_a_line_of_another_author_stays_while_its_source_carries_it(
    evidence: Build, stored: Call, space: Call, stage2: Call
) -> None:
    log = evidence(1).human("Never push to main.").runs("make lint", "src/a.py:1: 'os' unused", ok=False)
    record = stored(str(log.runs("make lint", "ok").closes("ok")), "s1")
    line = f"- `make lint` failed on `src/a.py:1: 'os' unused`. [{record.citation}]"
    foreign = f"v1\n\n{PROFILE}\n\n{PREFERENCES}\n\n{TIPS}\n{line}\n\n{INDEX}\n"
    done = stage2(space([record]), foreign)
    assert done.verdict.passed
    assert line in done.section(TIPS)
    assert stage2(space([record]), done.text).text == done.text


@pytest.mark.req("Z056")
@pytest.mark.parametrize(
    "note",
    [
        "Never deploy on Fridays after 15:00.",
        "# Servers\n\n- `db1` is the primary\n- `db2` is read-only\n\nAsk before a restart.",
        "生产库每天 03:00 备份，备份期间不要发布。",
        " ".join(f"Rule {n}: part {n} of the plant is checked by team {n % 7}." for n in range(120)),
    ],
    ids=["line", "list", "chinese", "long"],
)
def test_a_pinned_note_is_always_represented(said: Call, space: Call, stage2: Call, note: str) -> None:
    done = stage2(space([said("Never push to main.", day=1)], [("pin", note, True)]))
    assert done.verdict.passed
    assert "[note:pin]" in done.text


@pytest.mark.req("Z046", "Z085", "Z101")
def test_many_long_records_fill_the_file_with_whole_lines_within_the_limit(
    said: Call, space: Call, stage2: Call
) -> None:
    nouns = ["invoice", "cart", "login", "export", "search", "mail", "upload", "report", "audit", "backup"]
    records = [
        said(
            f"Always validate the {nouns[n % 10]} form number {n} on the server side before saving it.",
            f"please rewrite the {nouns[n % 10]} page number {n} so that it loads without the old framework",
            day=n,
            project=f"project{n % 9}",
            session=f"s{n}",
        )
        for n in range(256)
    ]
    assert sum(len(record.text) for record in records) <= 300_000
    first = stage2(space(records))
    assert first.verdict.passed
    assert first.repairs == 0
    assert 7_000 < len(first.text.encode()) < 10_000
    assert first.section(PREFERENCES)
    assert len(first.section(INDEX)) >= 8
    assert "…" not in "".join(line for line in first.section(PREFERENCES))
    second = stage2(space(records), first.text)
    assert (second.verdict.passed, second.text) == (True, first.text)


def test_new_records_never_push_published_lines_out_while_there_is_room(said: Call, space: Call, stage2: Call) -> None:
    def batch(start: int, count: int) -> list[Any]:
        return [
            said(
                f"Always keep the {n} th widget of the board aligned with its {n * 3} px grid.", day=n, session=f"s{n}"
            )
            for n in range(start, start + count)
        ]

    text, records = "", []
    for start in range(0, 120, 12):
        records += batch(start, 12)
        done = stage2(space(records), text)
        assert done.verdict.passed, [str(v) for v in done.verdict.violations]
        text = done.text
    assert len(text.encode()) < 10_000


def test_a_long_input_is_read_in_parts(space: Call, stage2: Call) -> None:
    note = "\n".join(f"- fact {n}: the plant {n} stands in hall {n % 13}" for n in range(3_000))
    done = stage2(space([], [("big", note, False)]))
    assert done.verdict.passed
    offsets = [
        json.loads(call.arguments).get("offset", 0)
        for message in done.messages
        for call in message.tool_calls
        if call.name == "read" and "big" in call.arguments
    ]
    assert offsets == [0, 40_000, 80_000, 120_000][: len(offsets)]
    assert len(offsets) >= 3


def test_a_result_that_was_left_out_of_the_conversation_is_read_again(said: Call, space: Call, stage2: Call) -> None:
    record = said("Never push to main.", day=1)
    messages = list(stage2(space([record])).messages[:2])
    turn = next_turn(messages, TOOLS)
    messages.append(Message("assistant", turn.text, turn.calls))
    gone = "[left out here to keep the conversation short: read the file again if you need it]"
    messages += [Message("tool", gone, tool_call_id=call.id) for call in turn.calls]
    assert [call.arguments for call in next_turn(messages, TOOLS).calls] == [call.arguments for call in turn.calls]


def test_refused_lines_are_dropped_and_the_rest_is_written_again(said: Call, space: Call, stage2: Call) -> None:
    records = [said("Never push to main.", day=1), said("Always sign commits.", day=2)]
    done = stage2(space(records))
    target = next(claim for claim in claims(done.text) if "Always sign" in claim.text)
    complaint = f"- line {target.line}: `x` does not stand in a cited source. (unsupported_quote)"
    turn = next_turn([*done.messages, Message("user", f"not accepted yet:\n{complaint}")], TOOLS)
    text = json.loads(turn.calls[0].arguments)["content"]
    assert "In `shop`: Always sign commits." not in text.split(INDEX)[0]
    assert "Never push to main." in text


def test_a_text_that_was_too_long_is_written_shorter(said: Call, space: Call, stage2: Call) -> None:
    records = [said(f"Always keep rule {n} about widget {n} and its {n} friends in mind.", day=n) for n in range(90)]
    done = stage2(space(records))
    complaint = "- 12000 bytes; the summary must have fewer than 10000. Shorten or merge. (size)"
    turn = next_turn([*done.messages, Message("user", f"not accepted yet:\n{complaint}")], TOOLS)
    assert len(json.loads(turn.calls[0].arguments)["content"].encode()) <= len(done.text.encode()) - 300


def test_complaints_that_cannot_be_mended_end_in_done_not_in_a_loop(said: Call, space: Call, stage2: Call) -> None:
    messages = list(stage2(space([said("Never push to main.", day=1)])).messages)
    for _ in range(20):
        messages.append(Message("user", "not accepted yet:\n- The file smells. (smell)"))
        turn = next_turn(messages, TOOLS)
        messages.append(Message("assistant", turn.text, turn.calls))
        assert turn.text == "done"


def test_unreadable_inputs_are_passed_over(said: Call, space: Call, stage2: Call) -> None:
    record = said("Never push to main.", day=1)
    place = space([record])
    broken = "rollout_summaries/00000000000000ff.md"
    place.files[broken] = "no front matter"
    place.rows.append(
        place.rows[0]._replace(citation="00000000", path=broken)
        if hasattr(place.rows[0], "_replace")
        else place.rows[0]
    )
    assert stage2(place).verdict.passed


def test_nothing_to_say_gives_the_four_empty_headings(space: Call, stage2: Call) -> None:
    done = stage2(space([]))
    assert done.verdict.passed
    assert done.text == "v1\n\n" + "\n\n".join(HEADINGS) + "\n"


def test_tables_of_other_shapes_are_understood(said: Call) -> None:
    record = said("Never push to main.", day=1)
    text = f"Inputs:\n- {record.path} cited as [{record.citation}]\n- extensions/ad_hoc/notes/pin.md"
    turn = next_turn([Message("user", text)], TOOLS)
    asked = [json.loads(call.arguments)["path"] for call in turn.calls]
    assert asked[-2:] == [record.path, "extensions/ad_hoc/notes/pin.md"]


async def test_the_port_is_that_of_a_free_model_with_a_large_window() -> None:
    model = OfflineModel()
    assert (model.provider, model.name) == ("offline", "offline-extractive-1")
    assert await model.window() == 1_000_000
    reply = await model.chat([Message("user", "anything")], TOOLS, max_output_tokens=10)
    assert reply.usage.reported is False
    assert reply.finish == "tool_calls"
    assert "extractive" in model.notice
    await model.close()


@pytest.mark.fault("X25")
def test_one_folder_is_one_project_even_where_a_host_recorded_no_remote(said: Call, space: Call, stage2: Call) -> None:
    first = said("New tests use Jest, and they go under tests/", day=1)
    second = said("From now on use Vitest for all new tests, not Jest.", day=2)
    other = dataclasses.replace(first, text=first.text.replace("project: shop-id", "project: 0123456789ab"))
    assert stage2(space([other, second])).section(PREFERENCES) == [
        f"- In `shop`: From now on use Vitest for all new tests, not Jest. [{second.citation}]"
    ]
    elsewhere = dataclasses.replace(other, text=other.text.replace("cwd: /home/dev/shop", "cwd: /srv/shop"))
    assert len(stage2(space([elsewhere, second])).section(PREFERENCES)) == 2


def test_a_session_that_confirms_a_preference_supports_it(
    evidence: Build, stored: Call, said: Call, space: Call, stage2: Call
) -> None:
    rule = said("From now on use Vitest for all new tests, not Jest.", day=1)
    log = evidence(2).human("please cover shippingCost, same test conventions as before").edits("tests/a.test.ts")
    log.closes("Done with Vitest.").human("yes, Vitest is right, exactly how I want it. thanks")
    confirmed = stored(str(log), "s2")
    lines = stage2(space([rule, confirmed])).section(PREFERENCES)
    assert lines == [
        f"- In `shop`: From now on use Vitest for all new tests, not Jest. [{rule.citation}] [{confirmed.citation}]"
    ]
