"""The command: thin functions that parse, call `feedrate.api` and print."""
