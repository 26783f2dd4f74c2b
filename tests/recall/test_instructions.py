"""A project's own files win over memory, and only where they really say the opposite."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall import instructions
from recall.instructions import Instruction, Rules, stances


def told(*lines: str) -> Rules:
    return Rules([Instruction("AGENTS.md", n, taken) for n, line in enumerate(lines, 1) if (taken := stances(line))])


@pytest.mark.parametrize(
    ("memory", "file"),
    [
        ("In shop: new tests use Jest. [aaaa0001]", "- New tests use Vitest."),
        ("Use `npm` for everything.", "Never use npm."),
        ("Use npm.", "Use pnpm, never npm."),
        ("Run `npm test` before a commit.", "Prefer pnpm."),
        ("Never use pnpm.", "Always use pnpm."),
        ("新增测试统一用 Jest。", "测试使用 Vitest"),
        ("Indent with tabs.", "Prefer spaces."),
        ("Do not run `make lint`.", "Run `make lint` before each commit."),
    ],
)
def test_the_opposite_and_a_rival_of_the_same_kind_contradict(memory: str, file: str) -> None:
    found = told("# Rules", "", file).against(memory)
    assert found is not None
    assert (found.path, found.line) == ("AGENTS.md", 3)


@pytest.mark.parametrize(
    ("memory", "file"),
    [
        ("New tests use Vitest.", "New tests use Vitest."),
        ("New tests use Vitest; old Jest cases move over.", "New tests use Vitest, never use Jest."),
        ("The install with npm 9 failed.", "Use pnpm."),
        ("pnpm is used here, npm was dropped.", "Use npm."),
        ("Use Jest.", "Use Jest for the API and use Vitest for the web."),
        ("Use `src/a.py` as the entry.", "Use `src/b.py` as the entry."),
        ("Use yarn.", "Run `make test`."),
        ("Prefers answers in German.", "Use npm."),
        ("Never publish on a Friday.", "Use npm; run `npm publish`."),
        ("Use npm.", "Use npm. In CI, do not use npm."),
    ],
)
def test_a_mention_a_fact_or_another_subject_does_not(memory: str, file: str) -> None:
    assert told(file).against(memory) is None


def test_files_are_looked_for_from_the_root_down_to_the_folder(tmp_path: Path) -> None:
    deep = tmp_path / "packages" / "api"
    deep.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("Use pnpm.\n", "utf-8")
    (deep / "CLAUDE.md").write_text("\n- New tests use Vitest.\n", "utf-8")
    (tmp_path / "packages" / "AGENTS.md").symlink_to(tmp_path / "AGENTS.md")
    paths = instructions.candidates(str(tmp_path), str(deep))
    found = instructions.read_instructions(paths)
    assert [(item.path, item.line) for item in found] == [
        (str(tmp_path / "AGENTS.md"), 1),
        (str(deep / "CLAUDE.md"), 2),
    ]
    assert len(instructions.candidates(str(tmp_path), str(tmp_path / "a/b/c/d/e/f/g/h/i/j"))) == 9 * len(
        instructions.NAMES
    )
    outside = instructions.candidates(str(deep), str(tmp_path))
    assert all(path.startswith(str(deep)) for path in outside)


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").mkdir()
    (tmp_path / "CLAUDE.md").write_bytes(b"Use pnpm.\n" * 10_000)
    (tmp_path / "CLAUDE.local.md").write_bytes(b"\xff\xfe Use npm \xff\n")
    found = instructions.read_instructions(instructions.candidates(str(tmp_path), str(tmp_path)))
    assert [item.path for item in found] == [str(tmp_path / "CLAUDE.local.md")]
