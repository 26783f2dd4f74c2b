"""Runs of the pipeline: plain (`flows.pipeline`) and as Prefect flows. Only here is Prefect imported."""
