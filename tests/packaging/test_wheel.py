"""What is installed is what lies in the tree. Runs in the checkout and, through `make wheel-test`, against the wheel
alone: there the packages come from the environment and `wheel_source` is the checkout they were built from."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
SCRIPTS: dict[str, str] = PROJECT["project"]["scripts"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def source(wheel_source: Path | None) -> Path:
    """The tree the packages were built from."""
    return wheel_source or ROOT


def installed(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is not importable"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def shipped(folder: Path) -> Iterator[Path]:
    """What a package consists of, without what the interpreter leaves behind."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder)


def test_every_package_of_the_tree_is_shipped_and_nothing_else(source: Path) -> None:
    assert sorted(PACKAGES) == sorted(path.parent.name for path in source.glob("[!.]*/__init__.py"))


def test_the_import_contracts_and_the_type_check_cover_the_packages() -> None:
    linter = PROJECT["tool"]["importlinter"]
    layers = next(contract for contract in linter["contracts"] if contract["id"] == "layers")["layers"]
    assert sorted(linter["root_packages"]) == sorted(PACKAGES)
    assert sorted(name.strip() for layer in layers for name in layer.split("|")) == sorted(PACKAGES)
    assert set(PACKAGES) <= set(PROJECT["tool"]["mypy"]["files"])


def test_only_flows_may_know_prefect() -> None:
    contract = next(
        c for c in PROJECT["tool"]["importlinter"]["contracts"] if "prefect" in c.get("forbidden_modules", ())
    )
    assert sorted([*contract["source_modules"], "flows"]) == sorted(PACKAGES)


def test_no_flow_module_shadows_a_package(source: Path) -> None:
    """A flow runner may put `flows/` first on the path: a module there named like a room would hide the room."""
    assert not {path.stem for path in (source / "flows").glob("*.py")} & set(PACKAGES)


def test_no_other_distribution_owns_our_names(wheel_source: Path | None) -> None:
    owners = importlib.metadata.packages_distributions()
    for package in PACKAGES:
        found = set(owners.get(package, ()))
        assert found <= {"slowwave"}, package
        assert found or wheel_source is None, f"{package} does not come from the wheel"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_of_a_package_is_installed_byte_for_byte(
    package: str, source: Path, wheel_source: Path | None
) -> None:
    here = installed(package)
    assert wheel_source is None or not here.is_relative_to(source), "the checkout is imported in place of the wheel"
    files = list(shipped(source / package))
    assert files
    assert [name for name in files if not (here / name).is_file()] == []
    assert [name for name in files if (here / name).read_bytes() != (source / package / name).read_bytes()] == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_console_scripts_answer_wherever_they_are_called(script: str, tmp_path: Path) -> None:
    """A folder of the caller's named like one of our packages must not be run in our place."""
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('the wrong package')\n", encoding="utf-8")
    program = Path(sys.executable).parent / script
    assert program.is_file(), f"{program} is missing"
    done = subprocess.run(
        [program, "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_installed_metadata_say_what_the_project_says(wheel_source: Path | None) -> None:
    if wheel_source is None:
        pytest.skip("an editable install keeps the metadata of the day it was made")
    found = importlib.metadata.metadata("slowwave")
    runtime = [r for r in found.get_all("Requires-Dist") or () if "extra ==" not in r]
    assert {requirement(r) for r in runtime} == {requirement(r) for r in PROJECT["project"]["dependencies"]}
    assert found["Version"] == PROJECT["project"]["version"]
    scripts = importlib.metadata.distribution("slowwave").entry_points.select(group="console_scripts")
    assert {entry.name: entry.value for entry in scripts} == SCRIPTS


# -- the pinned list --------------------------------------------------------------------------------------------------


def requirement(text: str) -> tuple[str, str]:
    parsed = Requirement(text)
    return canonicalize_name(parsed.name), str(parsed.specifier)


def pins() -> Iterator[Requirement]:
    for entry in re.split(r"\n(?=\S)", LOCK.replace("\\\n", " ").strip()):
        yield Requirement(entry.partition(" --hash=")[0].strip())


def declared() -> Iterator[Requirement]:
    """What the project and its development groups ask for; the smoke group is brought by a script of its own."""
    groups: dict[str, list[Any]] = PROJECT["dependency-groups"]
    for text in [*PROJECT["project"]["dependencies"], *groups["test"], *groups["lint"]]:
        yield Requirement(text)


def test_every_dependency_is_bounded() -> None:
    for wanted in declared():
        operators = {part.operator for part in wanted.specifier}
        assert operators & {"<", "<=", "==", "~="}, f"{wanted} has no upper bound"


def test_every_dependency_is_pinned_within_its_bounds() -> None:
    found = {canonicalize_name(pin.name): pin for pin in pins()}
    for wanted in declared():
        pin = found.get(canonicalize_name(wanted.name))
        assert pin is not None, f"{wanted.name} is not in requirements.lock: run `make lock`"
        version = next(iter(pin.specifier)).version
        assert wanted.specifier.contains(version, prereleases=True), f"{pin} against {wanted}: run `make lock`"


def test_every_pin_is_exact_and_hashed_and_names_no_address() -> None:
    entries = re.split(r"\n(?=\S)", LOCK.replace("\\\n", " ").strip())
    assert len(entries) > 50
    for entry in entries:
        pin = Requirement(entry.partition(" --hash=")[0].strip())
        assert [part.operator for part in pin.specifier] == ["=="], entry[:80]
        assert re.search(r" --hash=sha256:[0-9a-f]{64}\b", entry), entry[:80]
    assert "://" not in LOCK
    assert not re.search(r"^\s*-(?!-hash=)", LOCK, re.MULTILINE), "options such as an index address"


def test_a_wheel_runs_on_the_pinned_versions(wheel_source: Path | None) -> None:
    if wheel_source is None:
        pytest.skip("the developer's environment may be ahead of the list")
    for pin in pins():
        if pin.marker is None or pin.marker.evaluate():
            assert pin.specifier.contains(importlib.metadata.version(pin.name), prereleases=True), pin
