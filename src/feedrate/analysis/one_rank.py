"""What must be said of a tune on a host that several ranks share: one of them was measured."""

from __future__ import annotations

from feedrate.analysis.limiting import made
from feedrate.analysis.wording import figure
from feedrate.records import Finding, Metadata


def of_ranks(metadata: Metadata) -> tuple[Finding, ...]:
    """Return what one rank alone does not show; nothing where there is only one."""
    ranks = metadata.local_ranks
    if ranks < 2:
        return ()
    # elsewhere a process cannot be bound to CPUs
    bound = metadata.os.startswith("Linux")
    where = "on its share of the CPUs" if bound else "with all CPUs to itself"
    return (
        made(
            "tune.one_rank",
            f"one rank of {ranks} was measured, alone, {where}: what ranks wait for each other, "
            "and storage that they share, is not in it.",
            evidence=[
                figure("ranks on this host", ranks, "ranks"),
                figure("CPUs of each", metadata.usable_cpus / ranks, "CPUs"),
            ],
        ),
    )
