"""Literals in the source: the values that they stand for, and how a value is written."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import libcst as cst

Value = int | str | bool | None


class Unknown(Enum):
    """The value of what is no literal: only the running program knows it."""

    UNKNOWN = auto()


UNKNOWN: Final = Unknown.UNKNOWN

_NAMES: dict[str, bool | None] = {"True": True, "False": False, "None": None}


def value_of(node: cst.BaseExpression | None) -> object:
    """Return what a literal stands for, `UNKNOWN` for any other expression."""
    if isinstance(node, cst.Integer | cst.Float):
        return node.evaluated_value
    if isinstance(node, cst.Name):
        return _NAMES.get(node.value, UNKNOWN)
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString):
        text = node.evaluated_value
        return UNKNOWN if text is None else text  # of parts, one may be computed
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = value_of(node.expression)
        return -value if isinstance(value, int | float) else UNKNOWN
    return UNKNOWN


def same(one: object, other: object) -> bool:
    """Tell whether two values are written alike: 1 and True are not."""
    return type(one) is type(other) and one == other


def code_of(value: Value) -> str:
    """Return how a value is written in source."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def expression_of(value: Value, instead_of: cst.BaseExpression | None = None) -> cst.BaseExpression:
    """Return the expression for a value, in the quotes of the string that it replaces."""
    code = code_of(value)
    if isinstance(value, str) and isinstance(instead_of, cst.SimpleString):
        code = f"{instead_of.quote}{value}{instead_of.quote}"
    return cst.parse_expression(code)
