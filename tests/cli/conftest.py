"""A home of one's own with the sample sessions as everything there is to read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.main import main
from tests.plugins.command_line import CONFIG, SAMPLES, Result, Slowwave


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder whose settings point at the samples."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / "config.toml").write_text(CONFIG.format(samples=SAMPLES), encoding="utf-8")
    (folder / "config.toml").chmod(0o600)
    monkeypatch.setenv("SLOWWAVE_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which one run has been made; to be copied, never used."""
    folder = tmp_path_factory.mktemp("finished") / "data"
    folder.mkdir(mode=0o700)
    (folder / "config.toml").write_text(CONFIG.format(samples=SAMPLES), encoding="utf-8")
    (folder / "config.toml").chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLOWWAVE_HOME", str(folder))
        with pytest.raises(SystemExit) as ended:
            main(["run", "--json"])
    assert not ended.value.code
    return folder


@pytest.fixture
def after_run(slowwave: Slowwave, home: Path, finished: Path) -> Slowwave:
    """As `slowwave`, in a data folder in which one run has been made."""
    shutil.rmtree(home)
    shutil.copytree(finished, home)
    return slowwave


@pytest.fixture
def slowwave(home: Path, capsys: pytest.CaptureFixture[str]) -> Slowwave:
    """Runs `slowwave ARGS` in this process."""
    assert home.is_dir()

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code: object = 0
        try:
            main(list(arguments))
        except SystemExit as ended:
            code = ended.code or 0
        captured = capsys.readouterr()
        return Result(code if isinstance(code, int) else int(code is not None), captured.out, captured.err)

    return call
