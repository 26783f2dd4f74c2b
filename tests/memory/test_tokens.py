"""Token counts: exact where a vocabulary is at hand, careful where not, and never by characters alone."""

from __future__ import annotations

import base64
import gzip
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory import tokens
from memory.tokens import MAX_CHUNK, MAX_FACTOR, TokenCounter, estimate

ENGLISH = "Please use vitest instead of jest in this repository, and keep the port at 9090 from now on. " * 40
CODE = "def handler(request: Request, *, limit: int = 10) -> Response:\n    return Response(items[:limit], 200)\n" * 40
CHINESE = "以后统一用这个项目的测试框架，不要再使用旧的方案。数据库端口改成九零九零，提交之前请先运行全部测试。" * 40
JAPANESE = "このプロジェクトではテストフレームワークを統一してください。古い方法は使わないでください。" * 40
KOREAN = "이 프로젝트에서는 테스트 프레임워크를 통일해 주세요. 데이터베이스 포트를 변경했습니다. " * 40
RUSSIAN = "В этом проекте используйте единую систему тестирования. Порт базы данных изменён. " * 40
TABLE = "".join(f"{n},{n * 7919},{n / 7:.3f},2026-11-28T09:{n % 60:02d}\n" for n in range(200))
REAL = {"en": ENGLISH, "code": CODE, "zh": CHINESE, "ja": JAPANESE, "ko": KOREAN, "ru": RUSSIAN, "table": TABLE}


def noise(size: int, alphabet: str) -> str:
    return "".join(random.Random(size).choices(alphabet, k=size))


BASE64 = base64.b64encode(random.Random(1).randbytes(30_000)).decode()
HARD = {
    "base64": BASE64,
    "letters": noise(20_000, "abcdefghijklmnopqrstuvwxyz"),
    "hex": noise(20_000, "0123456789abcdef"),
    "emoji": "🙂🚀👩‍💻🔥" * 3_000,
    "rare Han": "".join(chr(random.Random(n).randint(0x4E00, 0x9FFF)) for n in range(8_000)),
    "spaces": " " * 50_000,
    "English then base64": ENGLISH * 10 + BASE64,
    "base64 in the middle": ENGLISH * 5 + BASE64 + ENGLISH * 5,
    "code": CODE * 10,
}


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    return TokenCounter()


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> TokenCounter:
    """A counter whose vocabulary cannot be loaded."""
    return TokenCounter("no_such_vocabulary")


def test_counts_are_those_of_the_vocabulary(counter: TokenCounter) -> None:
    assert counter.exact
    assert counter.count("hello world") == 2
    assert counter.count("") == 0
    assert TokenCounter("cl100k_base").count("hello world") == 2


def test_vocabulary_needs_no_network_no_folder_and_no_variable(tmp_path: Path) -> None:
    script = (
        "import os, socket; before = dict(os.environ); socket.socket = None\n"
        "from memory.tokens import TokenCounter\n"
        "assert TokenCounter().exact and dict(os.environ) == before"
    )
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(Path.cwd())}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, cwd=Path.cwd())
    assert not any(tmp_path.iterdir())


def test_counting_imports_nothing_until_it_counts() -> None:
    script = "import sys; import memory.tokens; assert 'tiktoken' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path.cwd())


def test_file_that_is_not_the_vocabulary_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzip, "decompress", lambda data: b"QQ== 0\n")
    with pytest.raises(ValueError, match="o200k_base"):
        tokens._load_ranks("https://x.example/o200k_base.tiktoken", "0" * 64)


@pytest.mark.fault("O7")
def test_a_million_blanks_do_not_break_the_encoder(counter: TokenCounter) -> None:
    assert 0 < counter.count(" " * 1_000_000) < 1_000_000


def test_long_text_counts_like_the_sum_of_its_parts(counter: TokenCounter) -> None:
    text = ENGLISH * 60
    assert len(text) > 2 * MAX_CHUNK
    assert counter.count(text) == pytest.approx(60 * counter.count(ENGLISH), rel=0.005)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_bytes_are_an_upper_bound(text: str) -> None:
    counter = TokenCounter()
    assert counter.count(text) <= counter.upper_bound(text)
    assert counter.upper_bound(text) == len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.fault("M27", "M28")
@pytest.mark.parametrize("name", REAL)
def test_estimate_is_near_the_count_in_every_script(counter: TokenCounter, name: str) -> None:
    text = REAL[name]
    highest = 2.5 if name == "ru" else 1.67  # Cyrillic shares its weight with scripts that cost twice as much
    assert 0.85 < estimate(text) / counter.count(text) < highest


@pytest.mark.fault("M27", "X9")
def test_estimate_does_not_fall_below_what_encoded_data_costs(counter: TokenCounter) -> None:
    assert estimate(BASE64) >= 0.9 * counter.count(BASE64)
    assert estimate(BASE64) > 1.5 * len(BASE64) / 4


def test_without_a_vocabulary_counts_are_estimates(blind: TokenCounter) -> None:
    assert not blind.exact
    assert blind.count(CHINESE) == estimate(CHINESE)
    assert blind.at_most(CHINESE, estimate(CHINESE))
    assert not blind.at_most(CHINESE, estimate(CHINESE) - 1)


@pytest.mark.fault("M27", "X9")
@pytest.mark.parametrize("name", [*REAL, *HARD])
def test_what_is_said_to_fit_fits(counter: TokenCounter, name: str) -> None:
    text = {**REAL, **HARD}[name]
    exact = counter.count(text)
    for limit in (exact // 4, exact // 2, exact * 9 // 10, exact - 1):
        assert not counter.at_most(text, limit)
    for limit in (exact, exact * 11 // 10, exact * 2):
        assert counter.at_most(text, limit)


@pytest.mark.fault("X9")
def test_factor_rises_quickly_falls_slowly_and_stays_in_its_bounds() -> None:
    counter = TokenCounter()
    assert counter.factor("m") == 1.0
    assert counter.calibrate(100, 140, "m") == pytest.approx(1.2)
    assert counter.calibrate(100, 100, "m") == pytest.approx(1.16)
    assert counter.factor("other") == 1.0
    for _ in range(50):
        counter.calibrate(100, 10_000, "m")
    assert counter.factor("m") <= MAX_FACTOR
    for _ in range(80):
        counter.calibrate(100, 1, "m")
    assert counter.factor("m") == pytest.approx(1.0, abs=0.01)
    assert counter.calibrate(0, 10, "m") == counter.factor("m")


def test_allowance_shrinks_by_the_factor() -> None:
    counter = TokenCounter()
    assert counter.allowance(1_000, "m") == 1_000
    counter.calibrate(100, 200, "m")
    assert counter.allowance(1_000, "m") == 666
