"""The hosts slowwave can be put into, by name."""

from __future__ import annotations

from hosts.install import Host
from hosts.install_claude import Claude
from hosts.install_codex import Codex
from hosts.install_pi import Pi

HOSTS: dict[str, Host] = {host.name: host for host in (Codex(), Claude(), Pi())}
