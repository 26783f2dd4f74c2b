"""Whatever a host's configuration looks like, installing and uninstalling leaves every byte where it was."""

from __future__ import annotations

import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts import edit
from hosts.edit import HostConfigError
from hosts.install import Command, Host, install, uninstall
from hosts.install_claude import Claude
from hosts.install_codex import Codex
from hosts.install_pi import Pi

COMMAND = Command(("/opt/a venv/bin/python", "-I", "/opt/a venv/bin/slowwave-hook"))

words = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Z")), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
handlers = st.fixed_dictionaries(
    {"type": st.just("command"), "command": words}, optional={"timeout": st.integers(1, 60)}
)
groups = st.fixed_dictionaries({"hooks": st.lists(handlers, max_size=2)}, optional={"matcher": words})
events = st.sampled_from(["SessionStart", "UserPromptSubmit", "Stop", "PreToolUse", "Notification"])
hooks = st.dictionaries(events, st.lists(groups, max_size=2), max_size=3)


@st.composite
def json_files(draw: st.DrawFn) -> bytes:
    data: dict[str, Any] = draw(st.dictionaries(words, values, max_size=4))
    if draw(st.booleans()):
        data["hooks"] = draw(hooks)
        data = dict(draw(st.permutations(list(data.items()))))
    indent = draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))
    text = json.dumps(data, indent=indent, ensure_ascii=draw(st.booleans()))
    if indent is not None and draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    text = draw(st.sampled_from(["", "\n", "  "])) + text + draw(st.sampled_from(["", "\n", "\n\n", "  \n"]))
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


PIECES = [
    "# a comment\n",
    "\n",
    'model = "m"\n',
    "sandbox.mode = 'danger' # why\n",
    'text = """\n[[hooks.Stop]]\nnotify = ["no"]\n"""\n',
    "list = [\n  1, # [x]\n  2,\n]\n",
]
NOTIFY = ['notify = ["/bin/theirs", "a b"]\n', "notify=[ # mine\n  '/bin/x',\n]  # end\n", '"notify" = []\n', ""]
TABLES = [
    '[projects."/home/dev/a.b"]\ntrust_level = "trusted"\n',
    "# about tools\n[tools] # on\nweb = true\n\n",
    "[features]\n  hooks = true\n",
    '[hooks.state."/home/dev/.codex/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:0"\n',
    '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "mine"\n',
    '[[hooks.PreToolUse]]\nmatcher = "a"\n# x\n[[hooks.PreToolUse.hooks]]\ntype = "command"\ncommand = """x"""\n\n',
    '[hooks]\nSessionStart = [{ hooks = [{ type = "command", command = "inline" }] }]\n',
    "[mcp_servers.x]\ncommand = 'notify'\nargs = ['slow', 'wave']",
    '[mcp_servers.slowwave]\ncommand = "slowwave"\nargs = ["mcp"]\n[mcp_servers.slowwave.env]\nA = "b"\n',
    "mcp_servers.y = { command = 'y' }\n",
]


@st.composite
def toml_files(draw: st.DrawFn) -> bytes:
    top = draw(st.lists(st.sampled_from(PIECES), max_size=4, unique=True))
    top.insert(draw(st.integers(0, len(top))), draw(st.sampled_from(NOTIFY)))
    tables = draw(st.lists(st.sampled_from(TABLES), max_size=4, unique=True))
    text = "".join(top) + "\n".join(tables)
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        text = "".join(top)
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def round_trip(host: Host, files: dict[str, bytes | None]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, records = Path(name) / "host", Path(name) / "records"
        for path, data in files.items():
            if data is not None:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(data)
        folder.mkdir(exist_ok=True)
        before = snapshot(folder)
        install(host, folder, records, COMMAND)
        once = snapshot(folder)
        assert once != before
        assert all(c.what == "unchanged" for c in install(host, folder, records, COMMAND))
        assert snapshot(folder) == once
        uninstall(host, folder, records)
        assert snapshot(folder) == before
        assert not any(records.iterdir())


@pytest.mark.fault("O45")
@settings(max_examples=60, deadline=None)
@given(json_files())
def test_claude_settings_come_back_byte_for_byte(data: bytes) -> None:
    round_trip(Claude(), {"settings.json": data})


@pytest.mark.fault("O45")
@settings(max_examples=40, deadline=None)
@given(json_files(), st.none() | st.dictionaries(words, values, max_size=2))
def test_the_servers_of_claude_come_back_byte_for_byte_without_a_copy(
    data: bytes, servers: dict[str, Any] | None
) -> None:
    if servers is not None:
        mark, text = data[:3] if data[:1] == b"\xef" else b"", data.decode("utf-8-sig")
        data = mark + json.dumps({**json.loads(text), "mcpServers": servers}, ensure_ascii=False).encode()
    round_trip(Claude(), {".claude.json": data})


@pytest.mark.fault("O45")
@settings(max_examples=60, deadline=None)
@given(toml_files(), st.none() | json_files())
def test_codex_configuration_comes_back_byte_for_byte(config: bytes, hooks_file: bytes | None) -> None:
    round_trip(Codex(), {"config.toml": config, "hooks.json": hooks_file})


@settings(max_examples=10, deadline=None)
@given(st.none() | json_files())
def test_a_pi_folder_comes_back_byte_for_byte(data: bytes | None) -> None:
    round_trip(Pi(), {"settings.json": data})


@settings(max_examples=60, deadline=None)
@given(json_files())
def test_taking_hooks_out_without_a_copy_leaves_the_data_as_it_was(data: bytes) -> None:
    text = data.decode("utf-8-sig")
    path = Path("settings.json")
    added = edit.add_hooks(text, {"Stop": {"hooks": [{"type": "command", "command": COMMAND.shell("claude")}]}}, path)
    assert edit.strip_hooks(added, COMMAND.is_ours, text, path, ("Stop",)) in {text, _with_tight_empties(text, added)}


def _with_tight_empties(text: str, added: str) -> str:
    """An empty container may lose the white space inside it; nothing else may differ."""
    left = edit.strip_hooks(added, COMMAND.is_ours, text, Path("x"), ("Stop",))
    assert json.loads(left) == json.loads(text)
    squeezed = [value.replace(" ", "").replace("\n", "").replace("\r", "") for value in (left, text)]
    assert squeezed[0] == squeezed[1]
    return left


@settings(max_examples=60, deadline=None)
@given(toml_files())
def test_taking_toml_hooks_out_without_a_copy_leaves_the_data_as_it_was(data: bytes) -> None:
    from hosts.install_codex import add_to_config, strip_config

    text, path = data.decode("utf-8-sig"), Path("config.toml")
    try:
        added = add_to_config(text, COMMAND, path, hooks=True)
    except HostConfigError:
        return  # hooks in an inline array cannot be appended to: hooks.json is used then
    left = strip_config(added, text, path)
    ended = text if not text or text.endswith("\n") else text + ("\r\n" if "\r\n" in text else "\n")
    assert left == ended
