"""The line reader: complete lines only, damage counted, nothing raised, memory bounded."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.errors import UnreadableRollout
from memory.model import Boundary, ReadReport
from rollouts.lines import CHUNK, Ends, Lines, prefix_hash, repair


def read(
    path: Path, *, limit: int | None = None, **options: Any
) -> tuple[list[tuple[int, dict[str, Any]]], Boundary, ReadReport]:
    report = ReadReport()
    lines = Lines(path, report, limit=limit, **options)
    records = list(lines)
    return records, lines.boundary(len(records)), report


def write(tmp_path: Path, data: bytes | str, name: str = "a.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def values(path: Path) -> list[dict[str, Any]]:
    return [record for _, record in read(path)[0]]


def test_offsets_are_those_of_the_lines_and_the_boundary_hashes_what_lies_before_it(tmp_path: Path) -> None:
    data = b'{"n":1}\n{"n":2}\n\n{"n":3}\n'
    records, boundary, report = read(write(tmp_path, data))
    assert records == [(0, {"n": 1}), (8, {"n": 2}), (17, {"n": 3})]
    assert boundary == Boundary(len(data), 3, hashlib.sha256(data).hexdigest())
    assert (report.lines, report.bytes, report.partial_tail) == (3, len(data), 0)


def test_a_last_line_without_newline_waits_for_it_even_when_it_is_whole_json(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"n":1}\n{"n":2}')
    records, boundary, report = read(path)
    assert records == [(0, {"n": 1})]
    assert (boundary.offset, report.partial_tail) == (8, 1)
    path.write_bytes(path.read_bytes() + b"\n")
    assert read(path)[0] == [(0, {"n": 1}), (8, {"n": 2})]


def test_a_half_written_line_is_read_whole_once_its_rest_arrives(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"n":1}\n{"text":"ha')
    assert read(path)[1].offset == 8
    path.write_bytes(path.read_bytes() + b'lf"}\n')
    assert values(path) == [{"n": 1}, {"text": "half"}]


def test_crlf_bom_blank_lines_and_runs_of_nul_do_not_hide_records(tmp_path: Path) -> None:
    path = write(tmp_path, b'\xef\xbb\xbf{"n":1}\r\n   \r\n' + b"\0" * 512 + b'{"n":2}\n{"n":\x003}\n')
    records, _, report = read(path)
    assert [record for _, record in records] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert records[0][0] == 3
    assert (report.replaced_text, report.bad_json) == (2, 0)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"t":"cut \\ud83d here"}', "cut � here"),
        (b'{"t":"low \\udc00 alone"}', "low � alone"),
        (b'{"t":"pair \\ud83d\\ude00 stays, \\uD83D goes"}', "pair 😀 stays, � goes"),
        (b'{"t":"written \\\\ud83d stays \\ud83d"}', "written \\ud83d stays �"),
        (b'{"t":"latin \xe9 and \xff"}', "latin � and �"),
    ],
)
def test_text_that_is_no_unicode_is_replaced_and_counted(tmp_path: Path, line: bytes, text: str) -> None:
    records, _, report = read(write(tmp_path, line + b"\n"))
    assert records[0][1]["t"] == text
    records[0][1]["t"].encode()
    assert (report.replaced_text, report.bad_json) == (1, 0)


def test_numbers_and_control_characters_that_strict_json_refuses_are_read(tmp_path: Path) -> None:
    records = values(
        write(tmp_path, b'{"a":NaN,"b":-Infinity}\n{"t":"tab\there"}\n{"big":123456789012345678901234567890}\n')
    )
    assert records[0]["a"] != records[0]["a"]
    assert records[1] == {"t": "tab\there"}
    assert records[2] == {"big": 123456789012345678901234567890} or records[2]["big"] == 1.2345678901234568e29


def test_escapes_broken_by_masking_do_not_lose_the_record(tmp_path: Path) -> None:
    records, _, report = read(write(tmp_path, b'{"t":"mail\\***@***.*** \\n \\u12 \\\\"}\n'))
    assert records[0][1]["t"] == "mail\\***@***.*** \n \\u12 \\"
    assert (report.replaced_text, report.bad_json) == (1, 0)


def test_two_records_on_one_line_are_both_read(tmp_path: Path) -> None:
    records, _, report = read(write(tmp_path, b'{"type":"a"}{"type":"b"} {"type":"c"}\n{"type":"d"}\n'))
    assert [(offset, record["type"]) for offset, record in records] == [(0, "a"), (0, "b"), (0, "c"), (38, "d")]
    assert report.bad_json == 0


def test_a_whole_record_after_a_torn_one_survives_and_the_torn_one_is_counted(tmp_path: Path) -> None:
    torn = b'{"type":"message","id":"m2","message":{"role":"assistant","content":[{"type":"text","text":"'
    records, _, report = read(write(tmp_path, torn + b'{"type":"message","id":"m3"}\n{"type":"message","id":"m4"}\n'))
    assert [record["id"] for _, record in records] == ["m3", "m4"]
    assert report.bad_json == 1


def test_a_part_of_a_torn_record_never_passes_for_a_record_of_its_own(tmp_path: Path) -> None:
    torn = b'{"type":"assistant","message":{"content":[{"type":"text","text":"inner"},{"type":"text","text":"cut he\n'
    records, _, report = read(write(tmp_path, torn + b'{"type":"user"}\n'))
    assert [record for _, record in records] == [{"type": "user"}]
    assert report.bad_json == 1


def test_a_bad_line_in_the_middle_does_not_end_the_file(tmp_path: Path) -> None:
    records, _, report = read(write(tmp_path, b'{"n":1}\n{"n":\nnonsense\n{"n":2}\n[1,2]\n"text"\nnull\n'))
    assert [record["n"] for _, record in records] == [1, 2]
    assert (report.bad_json, report.not_objects) == (2, 3)


def test_values_nested_too_deep_are_counted_not_raised(tmp_path: Path) -> None:
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    records, _, report = read(write(tmp_path, deep + b'\n{"n":1}\n'))
    assert [record for _, record in records] == [{"n": 1}]
    assert report.bad_json == 1


def test_records_printed_over_several_lines_are_read_and_an_open_one_waits(tmp_path: Path) -> None:
    one, two = json.dumps({"type": "a", "list": ["x", 1]}, indent=2), json.dumps({"type": "b", "o": {}}, indent=2)
    path = write(tmp_path, f"{one}\n{two}")
    records, boundary, report = read(path)
    assert [record["type"] for _, record in records] == ["a"]
    assert boundary.offset == len(one) + 1
    assert boundary.prefix_hash == hashlib.sha256(f"{one}\n".encode()).hexdigest()
    assert report.partial_tail == 1
    path.write_text(f"{one}\n{two}\n")
    assert values(path) == [json.loads(one), json.loads(two)]


def test_a_lone_brace_does_not_swallow_the_records_after_it(tmp_path: Path) -> None:
    records, _, report = read(write(tmp_path, b'{\n{"n":1}\n{"n":2}\n'))
    assert [record["n"] for _, record in records] == [1, 2]
    assert report.bad_json == 1


@pytest.mark.parametrize("suffix", ["", ".zst", ".gz"])
def test_compressed_files_give_the_same_records_offsets_and_hash(tmp_path: Path, suffix: str) -> None:
    data = b"".join(b'{"n":%d,"text":"%s"}\n' % (n, b"x" * (n % 977)) for n in range(2_000))
    packed = {
        "": data,
        ".zst": zstandard.compress(data[:7_000]) + zstandard.compress(data[7_000:]),
        ".gz": gzip.compress(data),
    }
    plain = read(write(tmp_path, data, "plain.jsonl"))
    assert read(write(tmp_path, packed[suffix], f"a.jsonl{suffix}"))[:2] == plain[:2]


@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_a_compressed_file_that_breaks_off_is_read_up_to_there_with_a_note(tmp_path: Path, suffix: str) -> None:
    rows = b"".join(
        b'{"n":%d,"salt":"%s"}\n' % (n, hashlib.sha256(b"%d" % n).hexdigest().encode()) for n in range(20_000)
    )
    packed = zstandard.compress(rows) if suffix == ".zst" else gzip.compress(rows)
    records, _, report = read(write(tmp_path, packed[: len(packed) // 2], f"a.jsonl{suffix}"))
    assert 0 < len(records) < 20_000
    assert [record["n"] for _, record in records] == list(range(len(records)))
    assert report.notes or report.partial_tail


@pytest.mark.parametrize("name", ["a.jsonl.zst", "a.jsonl.gz"])
def test_a_file_that_is_not_what_its_name_says_is_unreadable(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableRollout, match="cannot be read"):
        read(write(tmp_path, b"plain text, not packed\n", name))


def test_a_missing_file_is_unreadable_and_the_message_names_it(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRollout, match=r"nowhere\.jsonl cannot be opened"):
        read(tmp_path / "nowhere.jsonl")
    with pytest.raises(UnreadableRollout):
        Ends(tmp_path / "nowhere.jsonl")


@pytest.mark.req("Z021")
def test_a_limit_freezes_the_snapshot_whatever_is_appended_later(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"n":1}\n{"n":2}\n{"n":3')
    before = read(path, limit=20)
    path.write_bytes(path.read_bytes() + b'}\n{"n":4}\n')
    assert read(path, limit=20) == before
    assert before[1].offset == 16
    assert before[2].partial_tail == 0


@pytest.mark.parametrize("filler", [100, CHUNK - 40, 3 * CHUNK + 17])
def test_lines_over_the_cap_are_passed_over_counted_and_hashed(tmp_path: Path, filler: int) -> None:
    data = b'{"n":1}\n{"long":"%s"}\n{"n":2}\n' % (b"x" * (5 * CHUNK)) + b'{"n":3,"f":"%s"}\n' % (b"y" * filler)
    records, boundary, report = read(write(tmp_path, data), max_line=4 * CHUNK)
    assert [record["n"] for _, record in records] == [1, 2, 3]
    assert (report.oversized, boundary.offset) == (1, len(data))
    assert boundary.prefix_hash == hashlib.sha256(data).hexdigest()


def test_an_unfinished_line_over_the_cap_leaves_the_boundary_before_it(tmp_path: Path) -> None:
    data = b'{"n":1}\n{"long":"%s' % (b"x" * (5 * CHUNK))
    records, boundary, report = read(write(tmp_path, data), max_line=CHUNK)
    assert [record for _, record in records] == [{"n": 1}]
    assert boundary == Boundary(8, 1, hashlib.sha256(b'{"n":1}\n').hexdigest())
    assert (report.partial_tail, report.oversized) == (1, 0)


def test_a_long_line_below_the_cap_is_read_whole(tmp_path: Path) -> None:
    data = b'{"n":1}\n{"long":"%s"}\n{"n":2}\n' % (b"x" * 20_000_000)
    records, _, report = read(write(tmp_path, data))
    assert len(records[1][1]["long"]) == 20_000_000
    assert [record.get("n") for _, record in records] == [1, None, 2]
    assert report.oversized == 0


def test_prefix_hash_agrees_with_the_boundary_and_tells_a_rewritten_file(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"n":1}\n{"n":2}\n')
    boundary = read(path)[1]
    path.write_bytes(path.read_bytes() + b'{"n":3}\n')
    assert prefix_hash(path, boundary.offset) == boundary.prefix_hash
    path.write_bytes(b'{"n":9}\n{"n":2}\n{"n":3}\n')
    assert prefix_hash(path, boundary.offset) != boundary.prefix_hash
    path.write_bytes(b"")
    assert prefix_hash(path, boundary.offset) == ""


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    records=st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), max_size=8),
    junk=st.lists(st.binary(max_size=30), max_size=4),
    data=st.data(),
)
def test_any_prefix_gives_the_first_records_and_a_true_hash(
    tmp_path: Path, records: list[dict[str, str]], junk: list[bytes], data: st.DataObject
) -> None:
    parts = [json.dumps(record).encode() for record in records] + junk
    whole = b"\n".join(data.draw(st.permutations(parts))) + b"\n"
    full, _, _ = read(write(tmp_path, whole))
    cut = data.draw(st.integers(0, len(whole)))
    some, boundary, _ = read(write(tmp_path, whole[:cut]))
    assert some == full[: len(some)]
    assert boundary.offset <= cut
    assert boundary.prefix_hash == (hashlib.sha256(whole[: boundary.offset]).hexdigest() if boundary.offset else "")
    assert read(write(tmp_path, whole), limit=cut)[:2] == (some, boundary)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,\\ud8type0 ', max_size=80).map(str.encode))
def test_repair_never_raises_and_counts_what_it_loses(line: bytes) -> None:
    report = ReadReport()
    found = repair(line, report)
    assert found or report.bad_json


class TestEnds:
    def test_a_small_file_is_whole_and_read_from_both_ends(self, tmp_path: Path) -> None:
        ends = Ends(write(tmp_path, b'{"n":1}\n{"n":2}\n{"n":3'))
        assert ends.whole
        assert [record for _, record in ends.head(ReadReport())] == [{"n": 1}, {"n": 2}]
        assert list(ends.tail(ReadReport())) == [{"n": 2}, {"n": 1}]

    def test_a_large_file_costs_only_its_ends(self, tmp_path: Path) -> None:
        rows = [b'{"n":%d,"text":"%s"}\n' % (n, b"x" * 500) for n in range(2_000)]
        path = write(tmp_path, b"".join(rows) + b'{"n":')
        ends = Ends(path)
        head = [record["n"] for _, record in ends.head(ReadReport())]
        tail = [record["n"] for record in ends.tail(ReadReport())]
        assert not ends.whole
        assert head == list(range(len(head)))
        assert tail == list(range(1_999, 1_999 - len(tail), -1))
        assert 100 < len(head) < 140
        assert 100 < len(tail) < 140

    def test_a_first_line_far_longer_than_the_head_is_understood(self, tmp_path: Path) -> None:
        path = write(tmp_path, b'{"first":"%s"}\n{"n":2}\n' % (b"x" * 700_000) + b'{"n":3}\n' * 50_000)
        records = [record for _, record in Ends(path).head(ReadReport())]
        assert len(records[0]["first"]) == 700_000
        assert records[1] == {"n": 2}

    def test_a_last_line_longer_than_the_tail_is_understood(self, tmp_path: Path) -> None:
        path = write(tmp_path, b'{"n":1}\n' * 20_000 + b'{"last":"%s"}\n' % (b"x" * 300_000))
        assert len(next(Ends(path).tail(ReadReport()))["last"]) == 300_000

    @pytest.mark.parametrize("suffix", [".zst", ".gz"])
    def test_compressed_files_have_the_same_ends(self, tmp_path: Path, suffix: str) -> None:
        data = b"".join(b'{"n":%d,"text":"%s"}\n' % (n, b"x" * (n % 700)) for n in range(9_000))
        plain = Ends(write(tmp_path, data, "plain.jsonl"))
        packed = Ends(
            write(tmp_path, zstandard.compress(data) if suffix == ".zst" else gzip.compress(data), f"a{suffix}")
        )
        assert list(packed.head(ReadReport())) == list(plain.head(ReadReport()))
        assert list(packed.tail(ReadReport())) == list(plain.tail(ReadReport()))
        assert packed.size == len(data)

    def test_the_tail_of_records_printed_over_several_lines_is_found(self, tmp_path: Path) -> None:
        data = "".join(json.dumps({"n": n, "text": "x" * 90}, indent=4) + "\n" for n in range(3_000))
        tail = [record["n"] for record in Ends(write(tmp_path, data)).tail(ReadReport())]
        assert tail == list(range(2_999, 2_999 - len(tail), -1))
        assert len(tail) > 100


_MEASURE = """
import resource, sys
from pathlib import Path
from memory.model import Host
from rollouts.adapters import ADAPTERS
adapter = ADAPTERS[Host.CODEX]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
transcript = adapter.read(Path(sys.argv[1]))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(after - before, len(transcript.events), transcript.boundary.offset)
"""


def test_a_rollout_of_64_mb_is_read_within_200_mb(tmp_path: Path) -> None:
    path = tmp_path / "rollout-2026-11-02T09-15-00-01a0f1aa-0000-7000-8000-000000000001.jsonl"
    stamp = '{"timestamp":"2026-11-02T09:15:01.500Z","type":"response_item","payload":'
    message = stamp + '{"type":"message","role":"user","content":[{"type":"input_text","text":"%d %s"}]}}\n'
    output = stamp + '{"type":"function_call_output","call_id":"c%d","output":"%s"}}\n'
    with path.open("w") as file:
        file.write('{"timestamp":"2026-11-02T09:15:00.120Z","type":"session_meta","payload":{"id":"s","cwd":"/w"}}\n')
        file.write(output % (0, "x" * 20_000_000))
        for number in range(10_500):
            file.write(message % (number, "word " * 40))
            file.write(output % (number, "line of output\\n" * 240))
    assert path.stat().st_size > 62_000_000
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    kilobytes, events, offset = map(int, done.stdout.split())
    assert (events, offset) == (21_001, path.stat().st_size)
    assert kilobytes * 1024 < 200_000_000
