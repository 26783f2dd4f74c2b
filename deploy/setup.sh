#!/usr/bin/env bash
# Makes the development environment: deploy/setup.sh VENV [PYTHON]. Uses uv where it is there, else venv and pip.
set -euo pipefail
venv=${1:?usage: deploy/setup.sh VENV [PYTHON]}
python=${2:-python3}
cd "$(dirname "$0")/.."

"$python" - <<'PY' || exit 1
import sys
if sys.version_info < (3, 11):
    sys.exit(f"slowwave needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. Use make PYTHON=...")
PY

echo "setting up $venv (once)"
if command -v uv >/dev/null 2>&1; then
    [ -x "$venv/bin/python" ] || uv venv --quiet --python "$python" "$venv"
    uv pip install --quiet --compile-bytecode --python "$venv/bin/python" --require-hashes -r requirements.lock
    uv pip install --quiet --python "$venv/bin/python" --no-deps -e .
else
    [ -x "$venv/bin/pip" ] || "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -e .
fi
