"""A call's arguments as a list that keeps the call's own style when it is changed.

LibCST stores the white space behind each argument in the comma or in the argument, and the last
one's elsewhere than the others'. Here arguments and the gaps between them are two lists, so that
one can be added or removed without its neighbours' comments getting lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from feedrate.edit.literals import Value, code_of, expression_of

Gap = cst.BaseParenthesizableWhitespace

_LINE_WIDTH = 100
"""Where a line of several arguments is broken, if the call has more than one line anyway."""

_NOTHING = cst.SimpleWhitespace("")
_TIGHT_EQUAL = cst.AssignEqual(_NOTHING, _NOTHING)


class Arguments:
    """The arguments of one call.

    ``_gaps[i]`` stands before argument i, the last one before ")". ``columns`` are the first and
    the last column of each argument.
    """

    def __init__(self, call: cst.Call, columns: Sequence[tuple[int, int]]) -> None:
        self._call = call
        self._has_comma_at_end = bool(call.args) and isinstance(call.args[-1].comma, cst.Comma)
        self._items: list[cst.Arg] = []
        self._before_commas: list[Gap] = []
        self._gaps: list[Gap] = [call.whitespace_before_args]
        for item in call.args:
            gap = item.whitespace_after_arg
            before_comma: Gap = _NOTHING
            if isinstance(item.comma, cst.Comma):
                before_comma = item.comma.whitespace_before
                if _is_nothing(gap):
                    gap = item.comma.whitespace_after
            self._items.append(_bare(item))
            self._before_commas.append(before_comma)
            self._gaps.append(gap)
        self._columns = list(columns)
        parting = self._gaps[1:-1]
        self._shares_lines = any(not _is_line_break(gap) for gap in parting)

    def __iter__(self) -> Iterator[cst.Arg]:
        return iter(self._items)

    def replace(self, index: int, value: cst.BaseExpression) -> None:
        """Give an argument another value."""
        self._items[index] = self._items[index].with_changes(value=value)

    def append(self, name: str, value: Value) -> None:
        """Add a keyword argument behind the others: on its own line where they are."""
        width = len(f"{name}={code_of(value)}")
        if self._items:
            self._open_gap(width)
        else:
            self._gaps.append(_NOTHING)
        self._items.append(
            cst.Arg(
                keyword=cst.Name(name),
                value=expression_of(value),
                equal=self._equal(),
                comma=_no_comma(),
            )
        )
        self._before_commas.append(_NOTHING)

    def remove(self, index: int) -> None:
        """Take an argument out, with the comment behind it on its line."""
        is_last = index == len(self._items) - 1
        before, after = self._gaps[index], self._gaps[index + 1]
        merge = _merged_at_end if is_last else _merged_within
        self._gaps[index : index + 2] = [merge(before, after)]
        del self._items[index], self._before_commas[index], self._columns[index]

    def call(self) -> cst.Call:
        """Return the call with these arguments."""
        last = len(self._items) - 1
        args = []
        for index, item in enumerate(self._items):
            before, after = self._before_commas[index], self._gaps[index + 1]
            if index < last:
                comma = cst.Comma(whitespace_before=before, whitespace_after=after)
                args.append(item.with_changes(comma=comma))
            elif self._has_comma_at_end:
                comma = cst.Comma(whitespace_before=before, whitespace_after=_NOTHING)
                args.append(item.with_changes(comma=comma, whitespace_after_arg=after))
            else:
                args.append(item.with_changes(whitespace_after_arg=after))
        return self._call.with_changes(whitespace_before_args=self._gaps[0], args=args)

    def _open_gap(self, width: int) -> None:
        """Make room for one more argument, of a width, behind the last one."""
        before, end = self._gaps[-2], self._gaps[-1]
        separator = self._separator()
        begin = self._columns[-1][1] + len(", ")
        broken = self._last_line_break()
        has_room = begin + width < _LINE_WIDTH  # with a comma
        if broken is None or (has_room and self._goes_on_a_line(before, end)):
            self._gaps.insert(-1, separator)
        else:
            gap, begin = _without_comments(broken[0]), broken[1]
            if isinstance(end, cst.ParenthesizedWhitespace):
                # The comment behind the last argument, and lines below it, stay where they are.
                gap = gap.with_changes(first_line=end.first_line, empty_lines=end.empty_lines)
                end = _without_comments(end)
            self._gaps[-1:] = [gap, end]
        self._columns.append((begin, begin + width))

    def _goes_on_a_line(self, before: Gap, end: Gap) -> bool:
        if not _is_line_break(before):
            return True
        has_comment = isinstance(end, cst.ParenthesizedWhitespace) and _has_comments(end)
        return self._shares_lines and not has_comment

    def _last_line_break(self) -> tuple[cst.ParenthesizedWhitespace, int] | None:
        """Return the last line break between arguments, and the column of what follows it."""
        for gap, (column, _) in zip(
            reversed(self._gaps[:-1]), reversed(self._columns), strict=True
        ):
            if isinstance(gap, cst.ParenthesizedWhitespace):
                return gap, column
        return None

    def _separator(self) -> Gap:
        """Return what parts two arguments on a line."""
        for gap in self._gaps[-2:0:-1]:
            if not _is_line_break(gap):
                return gap
        return cst.SimpleWhitespace(" ")

    def _equal(self) -> cst.AssignEqual:
        for item in reversed(self._items):
            if item.keyword is not None and isinstance(item.equal, cst.AssignEqual):
                spaces = (item.equal.whitespace_before, item.equal.whitespace_after)
                if all(isinstance(space, cst.SimpleWhitespace) for space in spaces):
                    return item.equal
        return _TIGHT_EQUAL


def _merged_within(before: Gap, after: Gap) -> Gap:
    """Return the gap that is left where an argument stood between the gaps, others behind it."""
    if not isinstance(after, cst.ParenthesizedWhitespace):
        return before
    if isinstance(before, cst.ParenthesizedWhitespace):
        return after.with_changes(
            first_line=before.first_line,
            empty_lines=[*before.empty_lines, *after.empty_lines],
        )
    return after


def _merged_at_end(before: Gap, after: Gap) -> Gap:
    """Return the gap that is left before ")" where the last argument stood between the gaps."""
    if not isinstance(before, cst.ParenthesizedWhitespace):
        return after
    if isinstance(after, cst.ParenthesizedWhitespace):
        return _merged_within(before, after)
    # The parenthesis goes up to the argument before, unless a comment is in its way.
    return before if _has_comments(before) else after


def _has_comments(gap: cst.ParenthesizedWhitespace) -> bool:
    return gap.first_line.comment is not None or any(line.comment for line in gap.empty_lines)


def _without_comments(gap: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    first_line = gap.first_line.with_changes(whitespace=_NOTHING, comment=None)
    return gap.with_changes(first_line=first_line, empty_lines=[])


def _bare(item: cst.Arg) -> cst.Arg:
    return item.with_changes(comma=_no_comma(), whitespace_after_arg=_NOTHING)


def _no_comma() -> cst.MaybeSentinel:
    return cst.MaybeSentinel.DEFAULT


def _is_line_break(gap: Gap) -> bool:
    return isinstance(gap, cst.ParenthesizedWhitespace)


def _is_nothing(gap: Gap) -> bool:
    return isinstance(gap, cst.SimpleWhitespace) and gap.value == ""
