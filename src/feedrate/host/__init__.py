"""What this machine offers and how much of it a process tree uses."""
