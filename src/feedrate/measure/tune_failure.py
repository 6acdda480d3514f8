"""Why a tune came to nothing at its first look, as one sentence."""

from __future__ import annotations

from feedrate.records import Run


def no_loop(run: Run) -> str:
    """Return why the look found no loop to tune, with the way out."""
    if not run.loaders:
        return (
            "no DataLoader was iterated: give the script that trains, with the arguments that "
            "make it do so"
        )
    if run.training_loader is None:
        numbers = ", ".join(str(use.number) for use in run.loaders)
        return f"it is not clear which loader trains; name it with --loader N ({numbers})"
    return "the training loader delivered no batch: let the script run longer"
