#!/usr/bin/env bash
# Builds the wheel, installs it alone into a new environment and runs the packaging and command-line tests against it:
# deploy/wheel_test.sh [PYTHON]
set -euo pipefail
python=${1:-python3}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A snapshot, so that work going on in the tree does not show as a difference.
source=$work/source
mkdir "$source"
tar -cf - --exclude './.*/*' --exclude ./dist --exclude ./build --exclude __pycache__ . | tar -xf - -C "$source"
cd "$source"
if command -v uv >/dev/null 2>&1; then
    uv build --quiet --wheel --out-dir "$work/dist"
    uv venv --quiet --python "$python" "$work/venv"
    uv pip install --quiet --python "$work/venv/bin/python" --require-hashes -r requirements.lock
    uv pip install --quiet --python "$work/venv/bin/python" --no-deps "$work"/dist/*.whl
else
    "$python" -m venv "$work/venv"
    pip=("$work/venv/bin/pip" --quiet --disable-pip-version-check)
    "${pip[@]}" install --require-hashes -r requirements.lock
    "${pip[@]}" wheel --no-deps --wheel-dir "$work/dist" .
    "${pip[@]}" install --no-deps "$work"/dist/*.whl
fi
# The tests run from a copy that holds no package of ours, so that the wheel is what gets imported.
mkdir "$work/checkout"
cp -r tests pyproject.toml requirements.lock examples docs README.md "$work/checkout/"
cd "$work/checkout"
SLOWWAVE_WHEEL_TEST=$source "$work/venv/bin/pytest" -q -n auto --maxprocesses 4 -p no:cacheprovider \
    tests/packaging/test_wheel.py tests/cli/test_commands.py
