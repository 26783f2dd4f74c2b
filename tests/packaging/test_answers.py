"""The five answers of docs/injection.md are there, and each names pages and a test that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = ("who writes", "which event", "project", "titles or whole facts", "after a correction")


@pytest.mark.req("P006")
def test_each_question_has_an_answer_with_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "injection.md").read_text("utf-8").partition("## Five answers")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    answers = rows[1:]
    assert len(answers) == len(QUESTIONS)
    for topic, (question, answer, test) in zip(QUESTIONS, answers, strict=True):
        assert topic in question.lower()
        assert len(answer.split()) > 10
        assert all((ROOT / "docs" / page).is_file() for page in re.findall(r"\]\(([\w.]+)\)", answer))
        path, _, name = test.strip("`").partition("::")
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        assert name in {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
