"""Starts the recording: `python examples/record/record.py --work DIR`. See README.md beside this file."""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    # A script's own folder comes first on the path; the modules are found from the repository's root instead.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    importlib.import_module("examples.record.recording").main()
