"""The command line: arguments in, one call, text out."""

import os

PARENT = os.getppid()
"""Who started this program, looked up before anything slow: a server whose client is gone has nobody to serve."""
