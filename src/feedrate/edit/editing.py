"""The settings written into the call that made a loader; what cannot be written is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from feedrate.edit.arguments import Arguments
from feedrate.edit.finding import LoaderCall, find_call, loader_calls
from feedrate.edit.literals import UNKNOWN, Value, code_of, expression_of, same, value_of
from feedrate.edit.origins import sentence_about, sentence_about_unpacked
from feedrate.edit.parsed import ParsedSource
from feedrate.records import LoaderFacts
from feedrate.settings import LoaderSettings

KEYWORDS: Mapping[str, str] = {
    "num_workers": "num_workers",
    "prefetch_factor": "prefetch_factor",
    "pin_memory": "pin_memory",
    "persistent_workers": "persistent_workers",
    "start_method": "multiprocessing_context",
    "batch_size": "batch_size",
    "in_order": "in_order",
}
"""The argument of a DataLoader for each field of `LoaderSettings`, in the order of writing."""

# What torch refuses without workers, with the value that it takes.
_ONLY_WITH_WORKERS: Mapping[str, Value] = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "multiprocessing_context": None,
    "timeout": 0,
}
_TORCH_PREFETCH_FACTOR = 2


@dataclass(frozen=True, slots=True)
class Edit:
    """A changed source.

    ``line`` is where the call begins, ``moved`` whether that is elsewhere than it was, ``only``
    whether no other call makes a loader. ``notes`` are sentences about the settings that are left
    for the user to change.
    """

    source: str
    line: int
    moved: bool
    only: bool
    notes: tuple[str, ...] = ()


def edit_call(
    text: str,
    line: int,
    settings: LoaderSettings,
    *,
    name: str = "the source",
    facts: Sequence[LoaderFacts] = (),
) -> Edit:
    """Write settings into the call that makes a loader; everything else stays as it is.

    Literals are replaced, missing arguments added in the call's own style, and what torch refuses
    without workers is taken out where there are to be none. An argument that comes from elsewhere
    is left alone and noted. Settings that are ``None`` are not touched.

    Args:
        text: the file's text, with its line endings.
        line: where the call was when it was measured, counted from 1.
        settings: what to write.
        name: what errors call the file.
        facts: what the measured loader had, the user's own settings first. By them it is told
            from others in the file.

    Raises:
        TargetError: the text cannot be parsed, or the call is not found or not the only one.
    """
    source = ParsedSource(text, name)
    wanted = _wanted(settings)
    call = find_call(source, line, list(wanted), _known(wanted, facts))
    has_workers = bool(facts) and facts[0].num_workers > 0
    writer = _Writer(source, call, has_workers=has_workers)
    for argument, value in wanted.items():
        writer.give(argument, value)
    if settings.num_workers == 0:
        writer.take_out_what_needs_workers()
    if getattr(settings, "loader", None) == "feedrate" and call.signature.whose != "feedrate":
        writer.notes.append(
            "These settings were measured with feedrate's loader: import DataLoader from feedrate "
            "to have it."
        )
    return Edit(
        source=source.replaced(call.node, writer.arguments.call()),
        line=call.first,
        moved=not call.first <= line <= call.last,
        only=len(loader_calls(source)) <= 1,
        notes=tuple(writer.notes),
    )


def _wanted(settings: LoaderSettings) -> dict[str, Value]:
    values = {KEYWORDS[field]: getattr(settings, field) for field in KEYWORDS}
    if settings.num_workers == 0:
        values = {name: values[name] for name in values if name not in _ONLY_WITH_WORKERS}
    return {name: value for name, value in values.items() if value is not None}


def _known(wanted: Mapping[str, Value], facts: Sequence[LoaderFacts]) -> dict[str, list[object]]:
    """Return the values that a call of the measured loader may have, by argument."""
    known: dict[str, list[object]] = {}
    for each in facts:
        for name in ("num_workers", "batch_size", "pin_memory"):
            value = getattr(each, name)
            if value is not None:  # as of a loader that Accelerate made of the user's
                known.setdefault(name, []).append(value)
    for name in known.keys() & wanted.keys():
        known[name].append(wanted[name])
    return known


class _Writer:
    """One call's arguments while they are changed, and the sentences about what is not."""

    def __init__(self, source: ParsedSource, call: LoaderCall, *, has_workers: bool) -> None:
        self.arguments = Arguments(call.node, [source.columns(arg) for arg in call.node.args])
        self.notes: list[str] = []
        self._source = source
        self._call = call
        self._has_workers = has_workers
        self._has_none = False

    def give(self, name: str, value: Value) -> None:
        """Have the call give a value, or note why it does not."""
        left_alone = len(self.notes)
        index = self._index(name)
        if index is not None:
            self._change(index, name, value)
        elif (unpacked := self._may_hold(name)) is not None:
            self._note(sentence_about_unpacked(self._source, name, value, *unpacked))
        elif not self._has_by_default(name, value):
            self._add(name, value)
        if name == "num_workers" and len(self.notes) == left_alone:
            self._has_workers = value != 0
            self._has_none = value == 0

    def take_out_what_needs_workers(self) -> None:
        """Take out the literals that torch refuses without workers."""
        for name, neutral in _ONLY_WITH_WORKERS.items():
            index = self._index(name)
            if index is None:
                default = self._call.signature.defaults.get(name, neutral)
                if default is not UNKNOWN and not same(default, neutral):
                    self.arguments.append(name, neutral)
                continue
            item = self._item(index)
            value = value_of(item.value)
            if value is UNKNOWN:
                self._note(sentence_about(self._source, name, neutral, item.value))
            elif same(value, neutral):
                continue
            elif not self._has_none:
                code = self._source.code(item.value)
                self._note(f"{name}={code} needs workers: take it out when num_workers is 0.")
            elif item.keyword is None:
                self.arguments.replace(index, expression_of(neutral))
            else:
                self.arguments.remove(index)
        for item in self.arguments:
            if item.star == "**" and self._has_none:
                code = self._source.code(item.value)
                self._note(f"**{code} must not hold prefetch_factor or persistent_workers now.")

    def _change(self, index: int, name: str, value: Value) -> None:
        item = self._item(index)
        present = value_of(item.value)
        if present is UNKNOWN:
            self._note(sentence_about(self._source, name, value, item.value))
        elif not _equal(name, present, value) and self._may_be_written(name, value):
            self.arguments.replace(index, expression_of(value, item.value))

    def _add(self, name: str, value: Value) -> None:
        signature = self._call.signature
        code = code_of(value)
        if name in signature.fixed:
            self._note(f"{name} is given on line {signature.fixed[name]}: let it be {code} there.")
        elif not signature.takes(name):
            self._note(
                f"{self._call.name} is not known to take {name}: let it be {code} where that makes "
                "its loader."
            )
        elif name == "batch_size" and self._index("batch_sampler") is not None:
            self._note(f"batch_size comes from the batch_sampler: let it give batches of {code}.")
        elif self._may_be_written(name, value):
            self.arguments.append(name, value)

    def _may_be_written(self, name: str, value: Value) -> bool:
        """Tell whether torch will take it, as it may not while a variable says how many workers."""
        if self._has_workers or name not in _ONLY_WITH_WORKERS:
            return True
        if same(value, _ONLY_WITH_WORKERS[name]):
            return True
        self._note(
            f"{name}={code_of(value)} is not written, for torch refuses it without workers: add it "
            "when num_workers is set."
        )
        return False

    def _has_by_default(self, name: str, value: Value) -> bool:
        return _equal(name, self._call.signature.defaults.get(name, UNKNOWN), value)

    def _item(self, index: int) -> cst.Arg:
        return list(self.arguments)[index]

    def _index(self, name: str) -> int | None:
        """Return where an argument is given, by keyword or by position."""
        positional = iter(self._call.signature.positional)
        for index, item in enumerate(self.arguments):
            if item.star:
                positional = iter(())  # nobody knows how many it stands for
            elif item.keyword is not None:
                if item.keyword.value == name:
                    return index
            elif next(positional, "") == name:
                return index
        return None

    def _may_hold(self, name: str) -> tuple[cst.BaseExpression, str] | None:
        """Return what is unpacked and may hold an argument that is not given otherwise."""
        before = 0
        for item in self.arguments:
            if item.star == "**":
                return item.value, "**"
            if item.star == "*" and name in self._call.signature.positional[before:]:
                return item.value, "*"
            before += item.keyword is None
        return None

    def _note(self, sentence: str | None) -> None:
        if sentence is not None:
            self.notes.append(sentence)


def _equal(name: str, present: object, value: Value) -> bool:
    """Tell whether a value has the effect of the one that is wanted."""
    if name == "prefetch_factor" and present is None:
        return value == _TORCH_PREFETCH_FACTOR
    return same(present, value)
