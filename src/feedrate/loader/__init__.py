"""What feedrate knows about torch's loader."""
