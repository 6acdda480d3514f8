"""What a call that makes a loader takes: torch's own, a subclass's, a partial's.

A call is recognised by what its name is imported as, also under another name; by the classes
that the file derives from such a name; and by `functools.partial` of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import libcst as cst

from feedrate.edit.literals import value_of
from feedrate.edit.parsed import ParsedSource

_TORCH_NAMES = {
    "torch.utils.data.DataLoader",
    "torch.utils.data.dataloader.DataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader",
}
_FEEDRATE_NAMES = {"feedrate.DataLoader", "feedrate.loader.dataloader.DataLoader"}

# As https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader has them.
_TORCH_POSITIONAL = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn",
    "pin_memory", "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
)  # fmt: skip
_TORCH_DEFAULTS: Mapping[str, object] = {
    "batch_size": 1,
    "num_workers": 0,
    "pin_memory": False,
    "timeout": 0,
    "multiprocessing_context": None,
    "prefetch_factor": None,
    "persistent_workers": False,
}


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call takes.

    ``positional`` are the names of what it takes by position, "" for what is none of the loader's.
    ``defaults`` are the values that hold where it gives none, as far as they are known.
    ``keywords`` are the names that it takes, ``None`` for all of a DataLoader. ``fixed`` are those
    that are given already and cannot be given again, with the line of the call that gives them.
    ``whose`` is "torch" or "feedrate" for these classes themselves, "" for others.
    """

    positional: tuple[str, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    keywords: frozenset[str] | None = None
    fixed: Mapping[str, int] = field(default_factory=dict)
    whose: str = ""

    def takes(self, name: str) -> bool:
        """Tell whether the call may give a keyword of that name."""
        return name not in self.fixed and (self.keywords is None or name in self.keywords)


_TORCH = Signature(_TORCH_POSITIONAL, _TORCH_DEFAULTS, whose="torch")
_FEEDRATE = replace(_TORCH, whose="feedrate")


def signature_of(source: ParsedSource, call: cst.Call) -> Signature | None:
    """Return what a call takes, ``None`` if it is not known to make a loader."""
    if _is_partial(source, call):
        base = _signature(source, call.args[0].value, ())
        return None if base is None else replace(base, positional=("", *base.positional))
    return _signature(source, call.func, ())


def _signature(
    source: ParsedSource, callee: cst.BaseExpression, seen: tuple[cst.CSTNode, ...]
) -> Signature | None:
    """``seen`` are the names that led here: a name may be bound to itself."""
    imported = source.imported(callee)
    if imported & _TORCH_NAMES:
        return _TORCH
    if imported & _FEEDRATE_NAMES:
        return _FEEDRATE
    if any(_last(name) == "DataLoader" for name in imported):
        return Signature()  # a library's own: it takes torch's keywords, in an order of its own
    if callee in seen:
        return None
    if isinstance(callee, cst.Attribute):
        return _of_initializer(source, callee, (*seen, callee))
    return _of_name(source, callee, (*seen, callee)) if isinstance(callee, cst.Name) else None


def _of_name(
    source: ParsedSource, name: cst.Name, seen: tuple[cst.CSTNode, ...]
) -> Signature | None:
    bindings = source.bindings(name)
    if not bindings and name.value == "DataLoader":
        return _TORCH  # from torch.utils.data import *
    for binding in bindings:
        if isinstance(binding, cst.ClassDef):
            found = _of_class(source, binding, seen)
        else:
            found = _of_value(source, source.value(binding), seen)
        if found is not None:
            return found
    return None


def _of_value(
    source: ParsedSource, value: cst.BaseExpression | None, seen: tuple[cst.CSTNode, ...]
) -> Signature | None:
    if isinstance(value, cst.Name | cst.Attribute):
        return _signature(source, value, seen)
    if isinstance(value, cst.Call) and _is_partial(source, value):
        base = _signature(source, value.args[0].value, seen)
        return None if base is None else _bound(source, base, value)
    return None


def _bound(source: ParsedSource, base: Signature, partial: cst.Call) -> Signature:
    """Return what is left to give to a partial; what it has as keywords can be given again."""
    given = partial.args[1:]
    count = sum(arg.keyword is None and not arg.star for arg in given)
    line = source.line(partial)
    is_open = any(arg.star for arg in given)
    keywords = {arg.keyword.value: value_of(arg.value) for arg in given if arg.keyword is not None}
    return replace(
        base,
        positional=() if is_open else base.positional[count:],
        defaults=keywords if is_open else {**base.defaults, **keywords},
        fixed={**base.fixed, **dict.fromkeys(base.positional[:count], line)},
        whose="",
    )


def _of_class(
    source: ParsedSource, made: cst.ClassDef, seen: tuple[cst.CSTNode, ...]
) -> Signature | None:
    base = _base(source, made, seen)
    initializer = _initializer(made)
    if base is None or initializer is None:
        return base
    parameters = initializer.params
    by_position = [*parameters.posonly_params, *parameters.params][1:]
    named = [*parameters.params, *parameters.kwonly_params]
    keywords = frozenset(each.name.value for each in named)
    passed_on = parameters.star_kwarg is not None
    return Signature(
        positional=tuple(each.name.value for each in by_position),
        defaults={each.name.value: value_of(each.default) for each in named if each.default},
        keywords=None if passed_on else keywords,
        fixed=_given_to_base(source, made, keywords) if passed_on else {},
    )


def _given_to_base(source: ParsedSource, made: cst.ClassDef, own: frozenset[str]) -> dict[str, int]:
    """Return the keywords that a class gives to its base itself, with their lines."""
    return {
        arg.keyword.value: source.line(arg)
        for call in source.calls
        if _is_super_initializer(call.func) and source.enclosing_class(call) is made
        for arg in call.args
        if arg.keyword is not None and arg.keyword.value not in own
    }


def _of_initializer(
    source: ParsedSource, callee: cst.Attribute, seen: tuple[cst.CSTNode, ...]
) -> Signature | None:
    """Return what ``super().__init__`` or ``DataLoader.__init__`` takes in a class on a loader."""
    if callee.attr.value != "__init__":
        return None
    if _is_super_initializer(callee):
        made = source.enclosing_class(callee)
        return None if made is None else _base(source, made, seen)
    base = _signature(source, callee.value, seen)
    return None if base is None else replace(base, positional=("", *base.positional))


def _base(
    source: ParsedSource, made: cst.ClassDef, seen: tuple[cst.CSTNode, ...]
) -> Signature | None:
    for base in made.bases:
        value = base.value
        if isinstance(value, cst.Subscript):  # DataLoader[Tensor]
            value = value.value
        found = _signature(source, value, seen)
        if found is not None:
            return found
    return None


def _initializer(made: cst.ClassDef) -> cst.FunctionDef | None:
    for statement in made.body.body:
        if isinstance(statement, cst.FunctionDef) and statement.name.value == "__init__":
            return statement
    return None


def _is_super_initializer(callee: cst.BaseExpression) -> bool:
    return (
        isinstance(callee, cst.Attribute)
        and callee.attr.value == "__init__"
        and isinstance(callee.value, cst.Call)
        and isinstance(callee.value.func, cst.Name)
        and callee.value.func.value == "super"
    )


def _is_partial(source: ParsedSource, call: cst.Call) -> bool:
    return bool(call.args) and "functools.partial" in source.imported(call.func)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
