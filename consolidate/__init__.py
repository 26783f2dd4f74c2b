"""Stage 2: all rollout summaries and notes become one summary, judged by the gate before anybody sees it."""
