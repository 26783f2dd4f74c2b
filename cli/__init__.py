"""The command line: arguments in, one call, text out."""
