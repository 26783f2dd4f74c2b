#!/bin/sh
# Starts slowwave-hook from PATH or ~/.local/bin, in its own interpreter and isolated (-I). Where slowwave is not
# installed there is nothing to do: memory never stands in the way of a prompt.
hook=$(command -v slowwave-hook) || hook=$HOME/.local/bin/slowwave-hook
[ -x "$hook" ] || exit 0
IFS= read -r first <"$hook"
python=${first#\#!}
case $python in
    */python*) [ -x "$python" ] && exec "$python" -I "$hook" claude ;;
esac
exec "$hook" claude
