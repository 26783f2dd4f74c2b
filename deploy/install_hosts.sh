#!/usr/bin/env bash
# Brings the real hosts for the tests with them: deploy/install_hosts.sh [DIR]. DIR is $SLOWWAVE_HOSTS, else
# ~/.cache/slowwave/hosts. Each host keeps its own licence and stays outside the repository. About 1.2 GB, once.
# Where npm or the network is missing it says so and succeeds: the tests are then skipped.
set -uo pipefail
dir=${1:-${SLOWWAVE_HOSTS:-${XDG_CACHE_HOME:-$HOME/.cache}/slowwave/hosts}}
limit=${HOSTS_SECONDS:-300}

if ! command -v npm >/dev/null 2>&1 || ! command -v node >/dev/null 2>&1; then
    echo "node and npm are not here: the tests with real hosts are skipped"
    exit 0
fi

# folder | the package that shows it is there | version | options
install() {
    local name=$1 package=$2 version=$3
    shift 3
    local there
    there=$(node -p "require('$dir/$name/node_modules/$package/package.json').version" 2>/dev/null)
    [ "$there" = "$version" ] && return
    mkdir -p "$dir/$name" || return
    echo "installing $package $version"
    timeout "$limit" npm install --silent --no-audit --no-fund "$@" --prefix "$dir/$name" "$package@$version" ||
        echo "$package $version could not be installed: its tests are skipped"
}

install codex @openai/codex 0.171.0
install claude @anthropic-ai/claude-code 2.1.332
install pi @earendil-works/pi-coding-agent 1.6.0 --ignore-scripts
install tsc typescript 5.9.3 --ignore-scripts
# What Pi asks for; older ones than 22.19 cannot run it.
if ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 22 || (a == 22 && b >= 19) ? 0 : 1)'; then
    install node node "$(node -p "require('$dir/node/node_modules/node/package.json').version" 2>/dev/null || echo 22)"
fi
exit 0
