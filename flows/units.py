"""The service for systemd and launchd: text to put into a file of the user's, printed and never installed by us."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from memory.errors import UsageError

LABEL = "slowwave"
SYSTEMD = """\
# systemd user unit of slowwave: ~/.config/systemd/user/slowwave.service
#   systemctl --user daemon-reload && systemctl --user enable --now slowwave
# Add "loginctl enable-linger" where it should run while you are logged out.
[Unit]
Description=slowwave: verified memory between the sessions of coding agents
Documentation=file:docs/service.md
StartLimitIntervalSec=600
StartLimitBurst=5

[Service]
Type=simple
{environment}ExecStart={program} -P -m cli.main up
Restart=on-failure
RestartSec=10
# The supervisor ends its own processes; what it leaves is killed.
KillMode=mixed
TimeoutStopSec=40
Nice=10
UMask=0077

[Install]
WantedBy=default.target
"""
LAUNCHD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- launchd agent of slowwave: ~/Library/LaunchAgents/slowwave.plist
     launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/slowwave.plist -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>{label}</string>
  <key>ProgramArguments</key>
  <array>
    <string>{program}</string><string>-P</string><string>-m</string><string>cli.main</string><string>up</string>
  </array>
{environment}  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ThrottleInterval</key><integer>10</integer>
  <key>ExitTimeOut</key><integer>40</integer>
  <key>ProcessType</key><string>Background</string>
  <key>Umask</key><integer>63</integer>
</dict>
</plist>
"""


def unit(kind: str, program: str, environment: Mapping[str, str]) -> str:
    """`systemd` or `launchd`; `program` is the Python that has slowwave. Raises UsageError for another kind."""
    if kind == "systemd":
        lines = "".join(f'Environment="{name}={_quoted(value)}"\n' for name, value in environment.items())
        return SYSTEMD.format(environment=lines, program=_quoted(program).replace(" ", "\\x20"))
    if kind == "launchd":
        pairs = "".join(
            f"    <key>{escape(name)}</key><string>{escape(value)}</string>\n" for name, value in environment.items()
        )
        block = f"  <key>EnvironmentVariables</key>\n  <dict>\n{pairs}  </dict>\n" if pairs else ""
        return LAUNCHD.format(environment=block, program=escape(program), label=LABEL)
    raise UsageError(f"--print-unit {kind}: no such kind.", hint="Known: systemd, launchd.")


def _quoted(text: str) -> str:
    """systemd's own meanings of `%`, quotes and backslashes, taken away."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
