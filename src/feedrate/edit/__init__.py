"""Changing the user's source: text, a line and settings in; new text and sentences out.

Needs LibCST, the extra ``apply``.
"""

from feedrate.edit.editing import Edit, edit_call
from feedrate.edit.source import SourceBytes

__all__ = ["Edit", "SourceBytes", "edit_call"]
