"""The state: what was seen, claimed, extracted, published, spent and forgotten.

`Store.open(settings, clock)` is the way in; `memory.state.ledger.Ledger` is the budget in front of every model call.
"""

from memory.state.base import Tx
from memory.state.dialect import on_server
from memory.state.health import Health
from memory.state.intents import IntentRow
from memory.state.jobs import JobRow, Lease, Refused
from memory.state.ledger import CeilingUse, Ledger, Spend
from memory.state.outputs import OutputRow, output_from_dict, output_to_dict
from memory.state.rollouts import FileMark, RolloutRow
from memory.state.runs import RunRow
from memory.state.store import Store
from memory.state.versions import VersionRow, manifest_from_dict, manifest_to_dict

__all__ = [
    "CeilingUse",
    "FileMark",
    "Health",
    "IntentRow",
    "JobRow",
    "Lease",
    "Ledger",
    "OutputRow",
    "Refused",
    "RolloutRow",
    "RunRow",
    "Spend",
    "Store",
    "Tx",
    "VersionRow",
    "manifest_from_dict",
    "manifest_to_dict",
    "on_server",
    "output_from_dict",
    "output_to_dict",
]
