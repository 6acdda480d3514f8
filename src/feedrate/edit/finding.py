"""Finding the call that made the measured loader, by its line, in a file that may have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from feedrate.edit.literals import UNKNOWN, same, value_of
from feedrate.edit.parsed import ParsedSource
from feedrate.edit.signatures import Signature, signature_of
from feedrate.errors import TargetError

_NEAR = 20
"""How many lines a call is looked for around where it was, if there are several in the file."""


@dataclass(frozen=True, slots=True)
class LoaderCall:
    """A call that makes a loader. Lines count from 1."""

    node: cst.Call
    signature: Signature
    name: str
    first: int
    last: int

    def literals(self) -> dict[str, object]:
        """Return the arguments that are literals, by name."""
        values = {}
        positional = iter(self.signature.positional)
        for arg in self.node.args:
            if arg.star:
                positional = iter(())
            name = arg.keyword.value if arg.keyword is not None else next(positional, "")
            values[name] = value_of(arg.value)
        return {name: value for name, value in values.items() if value is not UNKNOWN}


def find_call(
    source: ParsedSource,
    line: int,
    names: Sequence[str],
    known: Mapping[str, Sequence[object]],
) -> LoaderCall:
    """Return the call that made the loader on ``line``.

    Args:
        source: the file as it is now.
        line: where the call was when it was measured.
        names: the arguments that are to be given. A call of something unknown on the very line is
            taken for the right one if it gives one of them.
        known: by argument, the values that the measured loader had, and may have by now. Where
            calls of a DataLoader agree with them, those with other literals are not meant.

    Raises:
        TargetError: there is none, or more than one could be meant.
    """
    every = loader_calls(source)
    loaders = [call for call in every if _fits(call, known)] or every
    here = _on_line(loaders, line)
    if not here:
        here = _on_line(_other_calls(source, line, names, [call.node for call in every]), line)
    if not here:
        here = loaders
        if len(here) > 1:
            here = [call for call in loaders if abs(call.first - line) <= _NEAR]
            here = here or loaders
    if len(here) == 1:
        return here[0]
    if not here:
        raise TargetError(
            f"{source.name} has no call that makes the measured DataLoader, on line {line} or "
            "elsewhere: name the file that has, or measure again"
        )
    lines = sorted({call.first for call in here})
    if len(lines) == 1:
        raise TargetError(
            f"line {lines[0]} of {source.name} makes {len(here)} loaders, and only one was "
            "measured: put each on its own line and measure again"
        )
    raise TargetError(
        f"line {line} of {source.name} makes no DataLoader any more, and lines "
        f"{', '.join(map(str, lines[:-1]))} and {lines[-1]} do: measure again"
    )


def loader_calls(source: ParsedSource) -> list[LoaderCall]:
    """Return the calls that are known to make a loader, in the file's order."""
    found = []
    for call in source.calls:
        signature = signature_of(source, call)
        if signature is not None:
            found.append(_loader_call(source, call, signature))
    return found


def _other_calls(
    source: ParsedSource, line: int, names: Sequence[str], loaders: Sequence[cst.Call]
) -> list[LoaderCall]:
    """Return the calls on a line that may make a loader, as in a function of a library."""
    found = []
    for call in source.calls:
        first, last = source.lines(call)
        given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if first <= line <= last and given.intersection(names) and call not in loaders:
            signature = Signature(keywords=frozenset(given))
            found.append(_loader_call(source, call, signature))
    return found


def _loader_call(source: ParsedSource, call: cst.Call, signature: Signature) -> LoaderCall:
    first, last = source.lines(call)
    return LoaderCall(call, signature, source.code(call.func), first, last)


def _on_line(calls: Sequence[LoaderCall], line: int) -> list[LoaderCall]:
    """Return the calls that begin on a line, else the shortest that goes over it."""
    begun = [call for call in calls if call.first == line]
    if begun:
        return begun
    around = [call for call in calls if call.first <= line <= call.last]
    shortest = min((call.last - call.first for call in around), default=0)
    return [call for call in around if call.last - call.first == shortest]


def _fits(call: LoaderCall, known: Mapping[str, Sequence[object]]) -> bool:
    if not call.signature.whose:
        return True  # a class of the user's may make something else of what it is given
    return not any(
        name in known and not any(same(value, each) for each in known[name])
        for name, value in call.literals().items()
        if not isinstance(value, str)  # num_workers="auto" of feedrate's
    )
