#!/usr/bin/env bash
# Brings Debian's Chromium for the tests in a browser, and a font with Chinese signs for the pictures of docs/images.
# Needs root and apt; where they, or the network, are missing it says so and succeeds: the tests are then skipped.
set -uo pipefail
browser=/usr/bin/chromium
limit=${BROWSER_SECONDS:-600}

[ -x "$browser" ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "$browser is not here, and only root may install it (apt-get install chromium): browser tests are skipped"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
echo "installing chromium"
{
    timeout "$limit" apt-get update -qq &&
        timeout "$limit" apt-get install -qq -y --no-install-recommends chromium fonts-droid-fallback
} >/dev/null 2>&1 || echo "chromium could not be installed: browser tests are skipped"
exit 0
