"""The kernel: errors, domain model, clock, settings, redaction, tokens, state, workspace and the model port."""
