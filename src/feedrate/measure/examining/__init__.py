"""Examining a target in the child: what its dataset and loader do when they are tried."""
