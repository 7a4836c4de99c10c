"""The PLD accountant: privacy-loss distributions from the library dp-accounting, an extra of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from edgeveil.errors import InputError, MissingExtra
from edgeveil.privacy.charges import Charge

__all__ = ["pld_epsilon"]

_GRID = 1e-4


def pld_epsilon(charges: Sequence[Charge], delta: float) -> float:
    """Epsilon of the composed charges at delta; losses are rounded upwards, so it is never too small.

    Equal charges are composed at once. The library's grid adds at most 1e-4 per query.
    """
    try:
        from dp_accounting.pld import privacy_loss_distribution as losses
    except ImportError as error:
        raise MissingExtra("the accountant 'pld'", "pld") from error
    whole: Any = None
    for (epsilon, gaussian), times in Counter((c.epsilon, c.gaussian) for c in charges).items():
        if gaussian is None:
            assert epsilon is not None
            one = losses.from_privacy_parameters(_parameters(float(epsilon)), value_discretization_interval=_GRID)
        elif gaussian.law == "continuous":
            shift = (2 * gaussian.rho) ** 0.5
            one = losses.from_gaussian_mechanism(1 / float(shift), value_discretization_interval=_GRID)
        elif gaussian.cells is not None:
            one = losses.from_discrete_gaussian_mechanism(
                float(gaussian.scale), sensitivity=1, value_discretization_interval=_GRID
            )
            times *= gaussian.cells
        else:
            raise InputError(
                "the accountant 'pld' needs to know how many counts one edge changes by 1 (cells=) for discrete "
                "Gaussian noise; use the accountant 'zcdp' for other queries"
            )
        one = one if times == 1 else one.self_compose(times)
        whole = one if whole is None else whole.compose(one)
    return 0.0 if whole is None else float(whole.get_epsilon_for_delta(delta))


def _parameters(epsilon: float) -> Any:
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    return DifferentialPrivacyParameters(epsilon, 0.0)
