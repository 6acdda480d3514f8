"""A parsed source file: its calls, where they stand, and what its names are bound to."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import cast

import libcst as cst
from libcst import matchers as m
from libcst.matchers import findall
from libcst.metadata import (
    Assignment,
    ClassScope,
    MetadataWrapper,
    PositionProvider,
    QualifiedNameSource,
    Scope,
    ScopeProvider,
)

from feedrate.edit.common_lines import CommonLines
from feedrate.errors import TargetError


class ParsedSource:
    """One module. Nodes are those of this object's tree; lines count from 1.

    Raises:
        TargetError: the text is no Python.
    """

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        try:
            wrapper = MetadataWrapper(cst.parse_module(text))
            self._positions = wrapper.resolve(PositionProvider)
            self._scopes = wrapper.resolve(ScopeProvider)
        except cst.ParserSyntaxError as error:
            raise TargetError(_refusal(text, name)) from error
        self._module = wrapper.module
        self._places = CommonLines(self._module.code, text)
        self.calls = [cst.ensure_type(node, cst.Call) for node in findall(self._module, m.Call())]
        self._values = dict(_assigned(self._module))

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the first and the last line of a node."""
        place = self._positions[node]
        return self._places.line(place.start.line), self._places.line(place.end.line)

    def line(self, node: cst.CSTNode) -> int:
        """Return the first line of a node."""
        return self.lines(node)[0]

    def columns(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the columns at which a node begins and ends."""
        place = self._positions[node]
        return place.start.column, place.end.column

    def code(self, node: cst.CSTNode) -> str:
        """Return a node's source on one line."""
        return " ".join(self._module.code_for_node(node).split())

    def imported(self, node: cst.BaseExpression) -> set[str]:
        """Return the full names that a name or a dotted name is imported as, none if it is not."""
        scope = self._scope(node)
        if scope is None:
            return set()
        return {
            name.name
            for name in scope.get_qualified_names_for(node)
            if name.source is QualifiedNameSource.IMPORT
        }

    def bindings(self, name: cst.Name) -> list[cst.CSTNode]:
        """Return what binds a name where it is used, in the file's order: parameters, targets,
        classes, functions and imports.
        """
        scope = self._scope(name)
        if scope is None:
            return []
        nodes = [each.node for each in scope[name.value] if isinstance(each, Assignment)]
        return sorted(nodes, key=self.line)

    def value(self, target: cst.CSTNode) -> cst.BaseExpression | None:
        """Return what is assigned to a target, ``None`` where it is not a plain assignment."""
        return self._values.get(target)

    def enclosing_class(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """Return the innermost class around a node."""
        scope = self._scope(node)
        while scope is not None and scope.parent is not scope:
            if isinstance(scope, ClassScope):
                return cast(cst.ClassDef, scope.node)
            scope = scope.parent
        return None

    def function_of(self, parameter: cst.Param) -> str | None:
        """Return the name of the function that a parameter belongs to."""
        scope = self._scope(parameter)
        return getattr(scope, "name", None)

    def replaced(self, call: cst.Call, changed: cst.Call) -> str:
        """Return the whole text with one call changed.

        Raises:
            TargetError: the rest cannot be kept as it is.
        """
        module = cast(cst.Module, self._module.deep_replace(call, changed))
        return self._places.carried(module.code)

    def _scope(self, node: cst.CSTNode) -> Scope | None:
        return self._scopes.get(node)


def _refusal(text: str, name: str) -> str:
    """Return why a text is not parsed, in Python's own words, which are clearer than LibCST's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return f"{name} cannot be parsed (line {error.lineno}: {error.msg}): mend it first"
    except ValueError as error:
        return f"{name} cannot be parsed ({error}): mend it first"
    return f"LibCST cannot parse {name}: run pip install -U libcst, or change it by hand"


def _assigned(module: cst.Module) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Yield the targets of plain assignments with what is assigned to them."""
    for node in findall(module, m.Assign() | m.AnnAssign() | m.NamedExpr()):
        if isinstance(node, cst.Assign):
            for each in node.targets:
                yield each.target, node.value
        elif isinstance(node, cst.AnnAssign | cst.NamedExpr) and node.value is not None:
            yield node.target, node.value
