"""Rendering of records as text and figures: no measuring, no judging."""
