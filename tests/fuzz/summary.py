"""Counts of cases by kind, and the faults, saved with what repeats them."""

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from fuzz.worker import Outcome

PASSED = ("accepted", "refused")
SAVED_OF_EACH = 5  # faults that look alike


class Fault(NamedTuple):
    """A case that broke."""

    kind: str
    seed: int
    outcome: Outcome

    @property
    def signature(self) -> str:
        """Faults of one signature probably have one cause: what was raised and the last line of our code before it."""
        lines = self.outcome.details.strip().splitlines() or [""]
        places = re.findall(r'File ".*/src/angpn/(\S+?)", line (\d+)', self.outcome.details) or [()]
        inner, line = (0, 0) if self.outcome.name == "hang" else (-1, -1)  # a dump of a process begins where it was
        message = lines[line].removeprefix("fuzz.checks.").partition(", got ")[0]
        return f"{self.outcome.name} {':'.join(places[inner])} {re.sub('[0-9]+', '#', message)[:110]}"


class Summary:
    """Counts by kind, and the faults."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.counts: dict[str, Counter[str]] = {}
        self.peaks: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.faults: list[Fault] = []

    def add(self, kind: str, seed: int, outcome: Outcome, seconds: float, inputs: Path) -> None:
        """Count a case; where it broke, save its inputs, unless enough look like it."""
        self.counts.setdefault(kind, Counter())[outcome.name] += 1
        self.seconds[kind] += seconds
        self.peaks[kind] = max(self.peaks[kind], outcome.bytes)
        if outcome.name in PASSED:
            return
        fault = Fault(kind, seed, outcome)
        self.faults.append(fault)
        if sum(other.signature == fault.signature for other in self.faults) <= SAVED_OF_EACH:
            _save(fault, inputs, self._folder)

    def __str__(self) -> str:
        lines = [f"{'kind':<14}{'cases':>8}{'accepted':>10}{'refused':>9}{'faults':>8}{'peak GB':>9}{'seconds':>9}"]
        for kind, counts in {**self.counts, "all": sum(self.counts.values(), Counter())}.items():
            cases, faults = counts.total(), {name: n for name, n in counts.items() if name not in PASSED}
            peak = (max(self.peaks.values(), default=0) if kind == "all" else self.peaks[kind]) / 1e9
            seconds = self.seconds.total() if kind == "all" else self.seconds[kind]
            about = ", ".join(f"{n} {name}" for name, n in sorted(faults.items()))
            lines.append(
                f"{kind.rpartition('.')[2]:<14}{cases:>8}{counts['accepted']:>10}{counts['refused']:>9}"
                f"{sum(faults.values()):>8}{peak:>9.2f}{seconds:>9.0f}  {about}".rstrip()
            )
        alike: dict[tuple[str, str], list[Fault]] = {}
        for fault in self.faults:
            alike.setdefault((fault.kind, fault.signature), []).append(fault)
        for (kind, signature), faults in sorted(alike.items(), key=lambda item: -len(item[1])):
            lines.append(f"{len(faults):>5} x {kind.rpartition('.')[2]}, seed {faults[0].seed}: {signature}")
        return "\n".join(lines)


def _save(fault: Fault, inputs: Path, folder: Path) -> None:
    kind = fault.kind.rpartition(".")[2]
    place = folder / f"{kind}-{fault.seed}"
    shutil.rmtree(place, ignore_errors=True)
    if inputs.exists():
        shutil.copytree(inputs, place / "inputs", symlinks=True)
    place.mkdir(parents=True, exist_ok=True)
    command = f"make fuzz KINDS={kind} SEED={fault.seed} ROUNDS=1"
    (place / "fault.txt").write_text(f"{command}\n{fault.outcome.name}\n{fault.outcome.details}\n", errors="replace")
