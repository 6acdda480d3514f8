"""What may be set on a DataLoader, and what may be spent: frozen and checked once.

Everything later trusts these values, so a combination that torch would refuse cannot be
made. The sentences of the errors name the way out.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

StartMethod = Literal["fork", "forkserver", "spawn"]
START_METHODS: tuple[str, ...] = get_args(StartMethod)
Allowed = Literal["in_order", "batch_size"]
"""What a tune tries only where it is allowed to, for it changes what is trained."""
ALLOWED: tuple[str, ...] = get_args(Allowed)
LoaderKind = Literal["torch", "feedrate"]
LOADER_KINDS: tuple[str, ...] = get_args(LoaderKind)


class LoaderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one benchmark. ``None`` means: as the target has it.

    ``loader`` says whose workers fetch, and how their batches come: "torch" is the target's own
    loader, which has to be torch's or of a subclass; "feedrate" is the same loader made a
    `feedrate.DataLoader`. Without workers there is no difference between them. ``main_threads`` is
    no setting of the loader: how many threads torch may use in the main process.

    Raises:
        ValueError: a value or a combination that a DataLoader cannot have.
    """

    num_workers: int
    prefetch_factor: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    start_method: StartMethod | None = None
    batch_size: int | None = None
    in_order: bool | None = None
    loader: LoaderKind | None = None
    main_threads: int | None = None

    def __post_init__(self) -> None:
        if self.num_workers < 0:
            raise ValueError(f"num_workers must be 0 or more, not {self.num_workers}")
        if self.prefetch_factor is not None and self.prefetch_factor < 1:
            raise ValueError(f"prefetch_factor must be 1 or more, not {self.prefetch_factor}")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, not {self.batch_size}")
        if self.main_threads is not None and self.main_threads < 1:
            raise ValueError(f"main_threads must be 1 or more, not {self.main_threads}")
        if self.num_workers == 0:
            for name in ("prefetch_factor", "start_method", "in_order", "loader"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} needs num_workers of 1 or more; leave it out")
            if self.persistent_workers:
                raise ValueError("persistent_workers needs num_workers of 1 or more; leave it out")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What a measurement may use. ``None`` means: no limit is known.

    ``cpus`` may be a fraction, as a container's quota is.
    """

    cpus: float
    ram_bytes: int | None = None
    shm_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.cpus <= 0:
            raise ValueError(f"cpus must be more than 0, not {self.cpus}")
