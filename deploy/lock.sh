#!/usr/bin/env bash
# Resolves pyproject.toml into requirements.lock: pinned, hashed, for every supported platform, no addresses.
set -euo pipefail
cd "$(dirname "$0")/.."
uv lock --quiet "$@"
uv export --quiet --locked --group dev --no-emit-project --no-header --no-annotate --format requirements-txt >requirements.lock
