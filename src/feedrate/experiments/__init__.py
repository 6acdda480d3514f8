"""Measurements that ship with feedrate: the published sweep and the demo."""
