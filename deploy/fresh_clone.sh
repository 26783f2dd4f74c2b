#!/usr/bin/env bash
# Proves `make run` and `make test` for a newcomer: a clone of what is committed, an empty home, an environment with
# nothing but PATH and what installers need to reach packages. deploy/fresh_clone.sh [--without-uv]
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
path=$PATH
if [ "${1:-}" = --without-uv ]; then
    mkdir "$work/bin"
    ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$work/bin/python3"
    path=$work/bin:/usr/bin:/bin
fi
git clone --quiet . "$work/slowwave"
mkdir "$work/home"
cd "$work/slowwave"
clean=(env -i "HOME=$work/home" "PATH=$path" LANG=C.UTF-8)
while IFS='=' read -r name value; do
    case $name in PIP_* | UV_* | SSL_CERT_FILE | SSL_CERT_DIR | *_proxy | *_PROXY) clean+=("$name=$value") ;; esac
done < <(env)
if "${clean[@]}" bash -c 'command -v uv' >/dev/null; then echo "with uv"; else echo "without uv"; fi
start=$SECONDS
"${clean[@]}" make run
echo "== make run: $((SECONDS - start)) s"
start=$SECONDS
"${clean[@]}" make test
echo "== make test: $((SECONDS - start)) s"
