"""What an entry of the catalogue of messages holds, and what comes of one that was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from feedrate.records import Evidence, Finding, Severity

Figure = Literal[
    "shm",
    "memory",
    "memory_kills",
    "descriptors",
    "processes",
    "maps",
    "cpus",
    "start_method",
    "versions",
]
"""A figure of this machine that says something about a cause."""

Role = Literal["cause", "symptom", "note"]
"""A symptom follows from something else, and is only told where no cause is found. A note is no
failure: what torch, Python or a library remarks, often rightly passed over."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One cause and the texts that tell of it.

    ``texts`` are regular expressions; the entry is found in a line in which one of them is, if
    ``near`` is found around that line and ``far`` is not ("" asks for nothing). Their named groups
    can be used in ``what``, ``why`` and ``remedies`` as ``{name}``, and those of ``details``, which
    is looked for around that line; ``{quote}`` is the line's own message. ``remedies`` begin with
    the likeliest. ``figures`` are the evidence that this machine can add. ``in_own_code`` tells
    that the user's own line, if the traceback has one, says where.
    """

    name: str
    code: str
    texts: tuple[str, ...]
    what: str
    why: str
    remedies: tuple[str, ...]
    figures: tuple[Figure, ...] = ()
    severity: Severity = "error"
    role: Role = "cause"
    near: str = ""
    far: str = ""
    details: str = ""
    in_own_code: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """One cause that a text tells of.

    ``remedies`` begin with the likeliest. ``machine`` says what the figures of ``evidence`` mean
    for it, "" where none was gathered. ``quote`` is the text's own message, ``line`` where it
    stands first, counted from 1, ``times`` how often it stands there, ``ranks`` who printed it.
    """

    name: str
    code: str
    severity: Severity
    role: Role
    what: str
    why: str
    remedies: tuple[str, ...]
    figures: tuple[Figure, ...] = ()
    machine: str = ""
    evidence: tuple[Evidence, ...] = ()
    quote: str = ""
    line: int = 0
    times: int = 1
    ranks: tuple[int, ...] = ()

    def finding(self) -> Finding:
        """Return it as a finding, its remedies in one sentence."""
        return Finding(
            code=self.code,
            severity=self.severity,
            title=self.what,
            why=self.why,
            remedy=self.remedy(),
            machine=self.machine,
            evidence=self.evidence,
            quote=self.cited(),
        )

    def remedy(self) -> str:
        """Return the remedies in one sentence, numbered where there are several."""
        if len(self.remedies) == 1:
            return self.remedies[0]
        return "; ".join(f"{number}. {text}" for number, text in enumerate(self.remedies, 1))

    def cited(self) -> str:
        """Return the text's own message with where it stands, "" where there is none."""
        if not self.quote:
            return ""
        place = [f"line {self.line:,}"]
        if self.times > 1:
            place.append(f"{self.times:,} times")
        if self.ranks:
            ranks = ", ".join(map(str, self.ranks))
            place.append(f"rank {ranks}" if len(self.ranks) == 1 else f"ranks {ranks}")
        return f"{self.quote} ({', '.join(place)})"
