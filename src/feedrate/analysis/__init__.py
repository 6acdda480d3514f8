"""Pure functions from records to figures and findings: no clock, no process, no file."""
