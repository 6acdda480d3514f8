"""Where a value that is no literal comes from: one sentence that says where to change it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from feedrate.edit.literals import Value, code_of, same, value_of
from feedrate.edit.parsed import ParsedSource

_LONGEST_CODE = 60
_MOST_LINES = 3


def sentence_about(
    source: ParsedSource, name: str, value: Value, node: cst.BaseExpression
) -> str | None:
    """Return what to do so that an argument that is no literal becomes ``value``.

    Returns:
        A sentence that names where the argument comes from; ``None`` where it has the value.
    """
    wanted = code_of(value)
    code = _short(source.code(node))
    if isinstance(node, cst.Name):
        return _about_name(source, name, value, node)
    if isinstance(node, cst.Attribute):
        options = list(_options(source, node.attr.value))
        if len(options) == 1:
            return f"{name} comes from {code}: {_about_option(*options[0], value)}."
    if isinstance(node, cst.Attribute | cst.Subscript):
        return f"{name} comes from {code}: give it {wanted} there."
    return f"{name} is computed ({code}): let it be {wanted}."


def sentence_about_unpacked(
    source: ParsedSource, name: str, value: Value, node: cst.BaseExpression, stars: str
) -> str:
    """Return what to do where ``*args`` or ``**kwargs`` may hold the argument."""
    code = _short(source.code(node))
    bindings = source.bindings(node) if isinstance(node, cst.Name) else []
    where = f" (line {source.line(bindings[0])})" if len(bindings) == 1 else ""
    given = f"{name}={code_of(value)}" if stars == "**" else code_of(value)
    return f"{name} may come from {stars}{code}{where}: put {given} into it."


def _about_name(source: ParsedSource, name: str, value: Value, node: cst.Name) -> str | None:
    wanted = code_of(value)
    bindings = source.bindings(node)
    lines = [source.line(binding) for binding in bindings]
    comes = f"{name} comes from {node.value}"
    if len(bindings) == 1:
        (binding,), (line,) = bindings, lines
        if isinstance(binding, cst.Param):
            function = source.function_of(binding)
            whose = f"{function}()" if function else "a lambda"
            return f"{comes}, a parameter of {whose} (line {line}): pass {wanted} for it."
        if isinstance(binding, cst.Import | cst.ImportFrom):
            return f"{comes}, which line {line} imports: set it to {wanted} where it is made."
        if same(value_of(source.value(binding)), value):
            return None
        return f"{comes}, which line {line} sets: set it to {wanted} there."
    if 1 < len(lines) <= _MOST_LINES:
        named = ", ".join(str(line) for line in lines[:-1])
        return f"{comes}, which lines {named} and {lines[-1]} set: let it be {wanted}."
    return f"{comes}: let it be {wanted}."


def _about_option(flag: str, takes_value: bool, line: int, value: Value) -> str:
    wanted = code_of(value)
    if takes_value:
        return f"start with {flag} {value}, or make {wanted} its default on line {line}"
    return f"it is the option {flag} of line {line}: let it be {wanted}"


def _options(source: ParsedSource, attribute: str) -> Iterator[tuple[str, bool, int]]:
    """Yield the flag, whether it takes a value, and the line of each option of an argparse parser
    whose value goes to an attribute of that name.
    """
    for call in source.calls:
        if not (isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument"):
            continue
        flags = [value_of(arg.value) for arg in call.args if arg.keyword is None and not arg.star]
        names = [flag for flag in flags if isinstance(flag, str)]
        keywords = {arg.keyword.value: value_of(arg.value) for arg in call.args if arg.keyword}
        long = [flag for flag in names if flag.startswith("--")]
        if not long:
            continue
        goes_to = keywords.get("dest", long[0].lstrip("-").replace("-", "_"))
        if goes_to == attribute:
            yield long[0], "action" not in keywords, source.line(call)


def _short(code: str) -> str:
    return code if len(code) <= _LONGEST_CODE else f"{code[:_LONGEST_CODE]}…"
