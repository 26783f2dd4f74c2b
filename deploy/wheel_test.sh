#!/usr/bin/env bash
# Builds the wheel, installs it alone into a new environment and runs the packaging and command-line tests against it.
set -euo pipefail
python=${1:-python3}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if command -v uv >/dev/null 2>&1; then
    uv build --quiet --wheel --out-dir "$work/dist"
    uv venv --quiet --python "$python" "$work/venv"
    uv pip install --quiet --python "$work/venv/bin/python" -r requirements.lock
    uv pip install --quiet --python "$work/venv/bin/python" --no-deps "$work"/dist/*.whl
else
    "$python" -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check -r requirements.lock
    "$work/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work/dist" .
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$work"/dist/*.whl
fi
# The tests run from a copy that holds no package of ours, so that the wheel is what gets imported.
mkdir "$work/checkout"
cp -r tests pyproject.toml examples "$work/checkout/"
cd "$work/checkout"
SLOWWAVE_WHEEL_TEST=1 "$work/venv/bin/pytest" -q -o pythonpath= tests/packaging tests/cli
