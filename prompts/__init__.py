"""The texts sent to models: Markdown templates beside this file, rendered strictly.

A template names its variables; rendering with one too few or one too many is a PromptError, so that a prompt can
never go out with a hole in it. Variables are data: what stands in them is inserted once and never rendered again.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jinja2
import jinja2.meta
import jinja2.nodes

from memory.errors import PromptError

NAMES = (
    "extract_system",
    "extract_input",
    "extract_repair",
    "consolidate_system",
    "consolidate_input",
    "consolidate_repair",
)
"""The templates, each `<name>.md` in this package."""


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row of the table of inputs in `consolidate_input`. `date` is text fit to print (`2026-11-28`)."""

    citation: str
    path: str
    project: str
    date: str
    pinned: bool = False
    is_global: bool = False


def render(name: str, **variables: Any) -> str:
    """The text of a template with its variables, one final newline.

    Raises PromptError for an unknown template and for variables that are missing, unknown or undefined inside.
    """
    template, wanted = _template(name)
    if missing := sorted(wanted - variables.keys()):
        raise PromptError(f"Prompt {name} was rendered without {', '.join(missing)}.")
    if unknown := sorted(variables.keys() - wanted):
        raise PromptError(f"Prompt {name} knows no variable {', '.join(unknown)}.")
    try:
        return template.render(**variables).strip() + "\n"
    except jinja2.UndefinedError as error:
        # The message of an undefined attribute names the attribute, not the value.
        raise PromptError(f"Prompt {name} could not be rendered: {error.message}.") from None


def variables(name: str) -> frozenset[str]:
    """The variables a template wants."""
    return _template(name)[1]


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        extensions=(),
    )
    environment.filters["cell"] = _cell
    return environment


@functools.cache
def _template(name: str) -> tuple[jinja2.Template, frozenset[str]]:
    if name not in NAMES:
        raise PromptError(f"There is no prompt {name}.", hint=f"Known: {', '.join(NAMES)}.")
    source = resources.files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    tree = _environment().parse(source)
    return _environment().from_string(source), frozenset(jinja2.meta.find_undeclared_variables(tree))


def _cell(value: object) -> str:
    """One cell of a Markdown table: a single line without a bar."""
    return re.sub(r"\s+", " ", str(value)).replace("|", "/").strip()
