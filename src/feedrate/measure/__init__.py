"""Measuring: the manager plans and saves, an executor starts children, a child measures."""
