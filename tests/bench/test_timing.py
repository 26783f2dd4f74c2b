from __future__ import annotations

import pytest

from bench import __main__ as benches
from bench.timing import Pair, Row, dump, growth, paired, table, undump


def test_a_figure_is_the_median_of_the_rounds_ratios_so_one_slow_round_does_not_decide() -> None:
    assert Pair((2.0, 2.2, 90.0, 2.0, 1.8), (1.0, 1.1, 1.0, 1.0, 0.9)).ratio == pytest.approx(2.0)


def test_work_and_base_take_turns() -> None:
    order: list[str] = []
    paired(lambda: order.append("work"), lambda: order.append("base"), rounds=2, warm=0)
    assert order == ["base", "work", "work", "base"]


def test_slower_work_shows_as_a_ratio_above_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def takes(seconds: float) -> None:
        now[0] += seconds

    assert paired(lambda: takes(0.02), lambda: takes(0.005), rounds=3).ratio == pytest.approx(4)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_growth_finds_the_exponent(exponent: float) -> None:
    assert growth([1, 2, 4, 8], [3 * size**exponent for size in (1, 2, 4, 8)]) == pytest.approx(exponent)


def test_a_bound_is_missed_by_more_and_by_what_is_not_a_number() -> None:
    assert [Row("x", value, 2.0).missed for value in (1.9, 2.0, 2.1, float("nan"))] == [False, False, True, True]
    assert not Row("x", 1e9).missed


def test_the_table_says_which_bound_was_missed() -> None:
    rows = [("cli", Row("help", 13.0, 12.0)), ("cli", Row("told only", 3.0))]
    text = "\n".join(table(rows))
    assert "MISSED" in text
    assert "told only" in text
    assert undump(dump([row for _, row in rows])) == [row for _, row in rows]


def test_every_bench_can_be_listed_with_what_it_measures() -> None:
    assert "cli" in benches.names()
    assert all(benches.title(name) for name in benches.names())


def test_an_unknown_bench_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert benches.main(["nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err


def test_the_parts_the_pipeline_bench_times_exist() -> None:
    from bench import bench_pipeline

    assert [name for name, owner, attribute in bench_pipeline.PARTS if not hasattr(owner, attribute)] == []
