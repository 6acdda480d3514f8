"""The published figures, read from reference/published_sweep.json.

Times are seconds, rates images per second. One value per worker count is from a single sweep;
``repeated`` and ``pin_memory`` are medians of several runs in rotated order.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

PATH = Path(__file__).parent / "reference" / "published_sweep.json"


class Host(msgspec.Struct, frozen=True):
    """The machine of the published figures."""

    cpu: str
    gpu: str
    os: str
    torch: str


class Spread(msgspec.Struct, frozen=True):
    """A median with the smallest and the largest value, of ``n`` runs."""

    median: float
    low: float
    high: float
    n: int


class Times(msgspec.Struct, frozen=True):
    """The first epoch on a loader and the second."""

    cold: float
    warm: float


class Conclusions(msgspec.Struct, frozen=True):
    """What was concluded from the published figures; ``None`` where nothing was."""

    plateau_start: int
    balanced: int | None = None
    fastest_region: tuple[int, ...] = ()
    pin_memory: str | None = None


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of one condition, by worker count."""

    transform: str
    sweep: dict[int, float]
    times: dict[int, Times]
    conclusions: Conclusions
    repeated: dict[int, Spread] = {}
    pin_workers: int | None = None
    pin_memory: dict[bool, Spread] = {}


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """The published sweep."""

    host: Host
    images: int
    conditions: dict[str, Condition]


class _SweepRow(msgspec.Struct):
    num_workers: int
    epoch1_s: float
    warm_s: float
    warm_images_per_s: float


class _RepeatedRow(msgspec.Struct):
    num_workers: int
    runs: int
    median_images_per_s: float
    min: float
    max: float


class _PinRow(msgspec.Struct):
    pin_memory: bool
    runs: int
    median_s: float
    min_s: float
    max_s: float


class _WarmTimes(msgspec.Struct):
    epoch1_s: float
    warm_s: float


class _Light(msgspec.Struct):
    transform: str
    single_sweep_warm_images_per_s: dict[int, float]
    workers_1: _WarmTimes
    conclusions: Conclusions


class _Augmented(msgspec.Struct):
    transform: str
    single_sweep: list[_SweepRow]
    repeated_in_rotated_order: list[_RepeatedRow]
    pin_memory_at_4_workers: list[_PinRow]
    conclusions: Conclusions


class _Document(msgspec.Struct):
    host: Host
    light: _Light
    augmented: _Augmented


IMAGES = 60_000


def read(path: Path = PATH) -> Published:
    """Return the published figures; where a rate is not given, it follows from the time."""
    document = msgspec.json.decode(path.read_bytes(), type=_Document)
    light, augmented = document.light, document.augmented
    one = light.workers_1
    light_sweep = light.single_sweep_warm_images_per_s | {1: IMAGES / one.warm_s}
    return Published(
        host=document.host,
        images=IMAGES,
        conditions={
            "light": Condition(
                transform=light.transform,
                sweep=dict(sorted(light_sweep.items())),
                times={1: Times(one.epoch1_s, one.warm_s)},
                conclusions=light.conclusions,
            ),
            "augmented": Condition(
                transform=augmented.transform,
                sweep={row.num_workers: row.warm_images_per_s for row in augmented.single_sweep},
                times={
                    row.num_workers: Times(row.epoch1_s, row.warm_s)
                    for row in augmented.single_sweep
                },
                conclusions=augmented.conclusions,
                repeated={
                    row.num_workers: Spread(row.median_images_per_s, row.min, row.max, row.runs)
                    for row in augmented.repeated_in_rotated_order
                },
                pin_workers=4,
                pin_memory={
                    row.pin_memory: Spread(row.median_s, row.min_s, row.max_s, row.runs)
                    for row in augmented.pin_memory_at_4_workers
                },
            ),
        },
    )
