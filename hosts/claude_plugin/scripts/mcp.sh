#!/bin/sh
# Starts the memory tools (slowwave mcp) from PATH or ~/.local/bin, in its own interpreter and isolated (-I).
program=$(command -v slowwave) || program=$HOME/.local/bin/slowwave
[ -x "$program" ] || { echo "slowwave is not installed: no memory tools" >&2; exit 0; }
IFS= read -r first <"$program"
python=${first#\#!}
case $python in
    */python*) [ -x "$python" ] && exec "$python" -I "$program" mcp ;;
esac
exec "$program" mcp
