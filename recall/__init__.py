"""The read path: what is known, where a line comes from, how the store stands. Reads only, never changes a thing."""
