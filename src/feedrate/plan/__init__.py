"""Pure decisions: which settings to measure, in which order, and whether they fit."""
