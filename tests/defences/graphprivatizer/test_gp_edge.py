"""gp-edge: the law of a noisy list, computed exactly, keeps its promise when an edge comes or goes."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.graphprivatizer.gp_edge import EdgeBucketResponse, resized
from edgeveil.defences.graphprivatizer.gp_sound import response_matrix, two_level_response
from edgeveil.defences.renew import renew, renewal_epsilon
from edgeveil.errors import InputError, TooLarge
from edgeveil.privacy.noise import noise_for
from edgeveil.privacy.verify import Effort, verify
from plants import ExactLengths, HalfLists
from zoo import toy

pytestmark = pytest.mark.usefixtures("trained_briefly")

Law = dict[tuple[int, ...], float]
BUCKET = np.array([0, 0, 1, 1])
NODES = range(4)


def law(members: tuple[int, ...], length: int, p: np.ndarray) -> Law:
    """Every noisy list of `length` with its probability: members are cut to a uniform subset or filled up."""
    fill = p.mean(axis=0)
    out: Counter[tuple[int, ...]] = Counter()
    chosen = list(combinations(members, min(length, len(members))))
    for part in chosen:
        lists: Law = {(): 1.0 / len(chosen)}
        for row in [p[u] for u in part] + [fill] * (length - len(part)):
            grown: Counter[tuple[int, ...]] = Counter()
            for entries, mass in lists.items():
                for w in NODES:
                    grown[tuple(sorted((*entries, w)))] += mass * row[w]
            lists = dict(grown)
        out.update(lists)
    return dict(out)


@pytest.mark.parametrize(("first", "second"), [(0.7, 1.1), (2.0, 0.0), (0.0, 1.5)])
def test_one_more_member_changes_no_list_by_more_than_one_entry_may(first: float, second: float) -> None:
    """All lists of node 0, all lengths, all new members: the ratio of likelihoods never exceeds e^(e1 + e2)."""
    p, worst = response_matrix(BUCKET, first, second), 0.0
    for size in range(3):
        for members in combinations((1, 2, 3), size):
            for fresh in {1, 2, 3} - set(members):
                for length in range(5):
                    before, after = (law(tuple(sorted(m)), length, p) for m in (members, (*members, fresh)))
                    assert before.keys() == after.keys() and math.isclose(sum(before.values()), 1)
                    worst = max(worst, *(abs(math.log(before[k] / after[k])) for k in before))
    assert 0 < worst <= first + second + 1e-9


@pytest.mark.parametrize("seed", [0, None])
@pytest.mark.parametrize(("members", "length"), [((1, 2, 3), 2), ((2,), 3), ((1, 3), 0), ((1, 3), 2)])
def test_lists_are_drawn_by_that_law(members: tuple[int, ...], length: int, seed: int | None) -> None:
    """20,000 lists; five-sigma bands."""
    runs, noise = 20_000, noise_for(seed)
    indptr = len(members) * np.arange(runs + 1)
    row, entry = resized(indptr, np.tile(members, runs), np.full(runs, length), 4, noise)
    assert (np.bincount(row, minlength=runs) == length).all()
    drawn = two_level_response(entry, BUCKET, Fraction(7, 10), Fraction(11, 10), noise)
    lists = drawn[np.argsort(row, kind="stable")].reshape(runs, length)
    seen = Counter(tuple(sorted(one)) for one in lists.tolist())
    for entries, chance in law(members, length, response_matrix(BUCKET, 0.7, 1.1)).items():
        assert abs(seen[entries] / runs - chance) < 5 * math.sqrt(chance / runs)


def test_lengths_are_noisy_and_epsilon_is_for_one_undirected_edge() -> None:
    mechanism = EdgeBucketResponse(epsilon=4.0, length_share=0.25)
    claim = mechanism.mechanism_guarantee(None)
    assert (claim.epsilon, claim.unit, claim.status) == (4.0, "one undirected edge", "sound")
    assert [c.epsilon for c in claim.charges] == [1, Fraction(3, 2), Fraction(3, 2)]
    assert not any("degree" in what for what in claim.not_protected) and "node features" in claim.not_protected
    spread = mechanism.lengths(np.full(200_000, 50), 1000, noise_for(0)) - 50
    q = math.exp(-1 / 2)  # scale 2 / 1: two lengths change by one each
    assert spread.var() == pytest.approx(2 * q / (1 - q) ** 2, rel=0.03) and abs(spread.mean()) < 0.05


def test_it_can_be_trained_renewed_and_compared() -> None:
    release = ev.defend(toy(), "gp-edge", epsilon=8.0, seed=0)
    assert release.guarantee.epsilon == 8.0 and release.defence == "gp-edge" and not release.contains_private_graph
    assert renewal_epsilon(release, 2.0) == 2
    fresh = renew(release, toy(seed=3), epsilon=2.0, seed=1)
    assert fresh.guarantee.epsilon == 10.0 and sum(c.epsilon for c in fresh.guarantee.charges) == 10


@pytest.mark.parametrize(("epsilon", "canaries"), [pytest.param(1.0, 30_000, marks=pytest.mark.slow), (4.0, 2_000)])
def test_verify_tells_half_of_the_noise_from_all_of_it(epsilon: float, canaries: int) -> None:
    """Half of the noise at epsilon 1, over 12 runs with fresh bits each: bounds of 1.45 and 0.10 (mean, deviation).

    By a normal law three runs in a million miss it. With 10,000 canaries it was 1.21 and 0.12, one run in twenty. All of
    the noise shows 0.34 and 0.07 with 10,000; the deviation falls with the root of the canaries.
    """
    effort = Effort(runs=1000, canaries=canaries)
    assert verify(EdgeBucketResponse(epsilon=epsilon), effort, first=1).verdict != "refuted"
    half = verify(HalfLists(epsilon=epsilon), effort, until_refuted=True)
    assert half.verdict == "refuted" and "likelihood of the lists" in half.findings[0].detail


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_verify_sees_half_of_the_claim_with_default_settings(epsilon: float) -> None:
    found = verify(EdgeBucketResponse(epsilon=epsilon))
    assert found.verdict == "consistent" and found.lower_bound > 0.5 * epsilon


def test_what_a_list_tells_is_its_likelihood_ratio() -> None:
    """By the exact law of lists of one or two entries, a tenth of all nodes being alike."""
    mechanism = EdgeBucketResponse(epsilon=2.0)
    keep = 1 / (1 + math.exp(-0.75))
    fill = 0.1 * keep + 0.9 * (1 - keep)
    ratio = math.exp(0.25)  # two lengths share epsilon 0.5
    mixed = (keep * (1 - fill) + (1 - keep) * fill) / (2 * fill * (1 - fill))
    told = np.exp(mechanism._weigh(np.array([0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2])))
    assert told == pytest.approx([1 / ratio, ratio * (1 - keep) / (1 - fill), ratio * keep / fill, ratio * mixed,
                                  ratio * keep / fill])  # fmt: skip


def test_verify_catches_lengths_without_noise() -> None:
    assert verify(ExactLengths(epsilon=4.0), Effort(runs=20_000, canaries=1000)).verdict == "refuted"


def test_bad_parameters_and_sizes_are_named() -> None:
    for bad in (0.0, 1.0, math.nan, "half"):
        with pytest.raises(InputError, match="length_share"):
            EdgeBucketResponse(epsilon=1.0, length_share=bad)  # type: ignore[arg-type]
    with pytest.raises(TooLarge, match="raise epsilon"):
        big = ev.Graph.from_edges(np.array([[0], [1]]), num_nodes=10**7, x=np.ones((10**7, 1), np.float32))
        EdgeBucketResponse(epsilon=1e-6).entries(big, noise_for(0))
