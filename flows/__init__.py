"""Runs of the pipeline: plain (`flows.pipeline`) and as Prefect flows (`flows.nightly`). Only here is Prefect imported."""
