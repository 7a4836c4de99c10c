"""Does a mechanism keep its claim? Empirical lower bounds on epsilon, beside the claimed one.

The mechanism brings the experiments (`edgeveil.privacy.experiments`); here they share the error probability, and their
findings become a verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from edgeveil.errors import InputError
from edgeveil.privacy.experiments import Auditable, Effort, Finding

__all__ = ["POWER", "QUICK", "Effort", "Finding", "Verdict", "Verification", "judge", "verify"]

Verdict = Literal["consistent", "refuted", "inconclusive"]
POWER = 0.5  # a bound below this share of the claim would not have told half of the noise from all of it
QUICK = Effort(runs=3_000, canaries=10_000)


@dataclass(frozen=True)
class Verification:
    """All findings about one claim. The whole is wrong about a sound mechanism with probability <= 1 - confidence."""

    mechanism: str
    claimed: float
    confidence: float
    findings: tuple[Finding, ...]
    delta: float = 0.0
    note: str = ""

    @property
    def lower_bound(self) -> float:
        """The best bound of any experiment; each has its share of the error probability."""
        return max((f.lower_bound for f in self.findings), default=0.0)

    @property
    def ceiling(self) -> float:
        """The largest epsilon that every experiment could have shown: a leak may show in one of them alone."""
        return min((f.ceiling for f in self.findings), default=0.0)

    @property
    def verdict(self) -> Verdict:
        """See `judge`."""
        return judge(self.lower_bound, self.claimed, self.ceiling)


def judge(lower_bound: float, claimed: float, ceiling: float) -> Verdict:
    """Refuted above the claim; consistent if the claim was within reach and at least half of it was seen."""
    if lower_bound > claimed:
        return "refuted"
    return "consistent" if claimed <= ceiling and lower_bound >= POWER * claimed else "inconclusive"


def verify(
    mechanism: Any,
    effort: Effort | None = None,
    *,
    confidence: float = 0.99,
    first: int | None = None,
    until_refuted: bool = False,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> Verification:
    """Run the experiments of an `Auditable` mechanism: all of them, or only the `first` few.

    until_refuted: stop at the first one that refutes the claim; the others could not change the verdict.
    `progress` gets the name of the experiment under way and the finished share of all of them.
    """
    effort = effort or Effort()
    if not isinstance(mechanism, Auditable):
        raise InputError(
            f"{type(mechanism).__name__} cannot be verified on its own: it has no experiments() and audit_claim() "
            "(edgeveil.privacy.experiments.Auditable); audit a trained model with --through instead"
        )
    claim = mechanism.audit_claim()
    experiments = mechanism.experiments(effort)[:first]
    if not experiments:
        raise InputError(f"{type(mechanism).__name__} offers no experiment, so its claim cannot be tested")
    findings = []
    for number, experiment in enumerate(experiments):
        tick = _share(progress, experiment.name, number, len(experiments))
        tick(0.0)
        findings.append(experiment.run((1 - confidence) / len(experiments), claim, effort, tick))
        if until_refuted and findings[-1].lower_bound > claim.epsilon:
            break
    return Verification(type(mechanism).__name__, claim.epsilon, confidence, tuple(findings), claim.delta, claim.note)


def _share(progress: Callable[[str, float], None], name: str, number: int, of: int) -> Callable[[float], None]:
    return lambda part: progress(name, (number + part) / of)
