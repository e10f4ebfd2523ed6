"""Statistics against published tables, closed forms and constructed data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airtcp import stats

FINITE = st.floats(-1e6, 1e6, allow_nan=False)

# Two-sided 95 % and 99 % points, from the printed tables (for example NIST/SEMATECH e-Handbook 1.3.6.7.2).
T_TABLE = {
    1: (12.706, 63.657),
    2: (4.303, 9.925),
    3: (3.182, 5.841),
    4: (2.776, 4.604),
    5: (2.571, 4.032),
    9: (2.262, 3.250),
    10: (2.228, 3.169),
    19: (2.093, 2.861),
    30: (2.042, 2.750),
    60: (2.000, 2.660),
    100: (1.984, 2.626),
    1_000_000: (1.960, 2.576),
}


@pytest.mark.parametrize("df", T_TABLE)
def test_t_quantiles_are_those_of_the_tables(df: int) -> None:
    p95, p99 = T_TABLE[df]
    assert stats.student_t_quantile(0.975, df) == pytest.approx(p95, abs=5.1e-4)
    assert stats.student_t_quantile(0.995, df) == pytest.approx(p99, abs=5.1e-4)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 8, 30, 199, 200])
@pytest.mark.parametrize("t", [-4.0, -0.7, 0.0, 0.3, 1.0, 2.5, 9.0])
def test_t_distribution_is_the_integral_of_its_density(df: int, t: float) -> None:
    constant = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    x, step = np.linspace(0, abs(t), 20_001, retstep=True)
    density = constant * (1 + x**2 / df) ** (-(df + 1) / 2)
    simpson = step / 3 * (density[0] + 4 * density[1:-1:2].sum() + 2 * density[2:-1:2].sum() + density[-1])
    assert stats.student_t_cdf(t, df) == pytest.approx(0.5 + math.copysign(simpson, t), abs=1e-11)


@given(st.floats(0.001, 0.999), st.integers(1, 200))
def test_t_quantile_inverts_the_distribution(p: float, df: int) -> None:
    t = stats.student_t_quantile(p, df)
    assert stats.student_t_cdf(t, df) == pytest.approx(p, abs=1e-12)
    assert stats.student_t_quantile(1 - p, df) == pytest.approx(-t, rel=1e-9, abs=1e-9)


def test_t_quantile_has_no_step_where_the_method_changes() -> None:
    around = [stats.student_t_quantile(0.975, df) for df in range(198, 204)]
    assert (np.diff(around) < 0).all()
    assert np.abs(np.diff(around, 3)).max() < 2e-8


@pytest.mark.parametrize(("p", "df"), [(0, 3), (1, 3), (0.5, 0), (0.9, 2.5), (0.9, True)])
def test_t_quantile_refuses_what_makes_no_sense(p: float, df: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        stats.student_t_quantile(p, df)


def test_mean_of_a_textbook_sample() -> None:
    # Mean 5, variance 32 / 7, so the half width is 2.365 * sqrt(32 / 7 / 8).
    estimate = stats.mean([2, 4, 4, 4, 5, 5, 7, 9])
    assert (estimate.value, estimate.count) == (5, 8)
    assert estimate.interval == pytest.approx((5 - 1.7876, 5 + 1.7876), abs=5e-4)


def test_means_that_have_no_interval() -> None:
    assert stats.mean([3.5]) == stats.Estimate(3.5, None, None, 1)
    assert math.isnan(stats.mean([]).value)
    assert stats.mean([]).interval is None
    assert stats.mean([1.0, math.inf]) == stats.Estimate(math.inf, None, None, 2)


@given(FINITE, st.integers(2, 20))
def test_equal_values_have_no_spread(value: float, count: int) -> None:
    assert stats.mean([value] * count).interval == (value, value)


@given(st.lists(FINITE, min_size=2, max_size=30), FINITE)
def test_interval_moves_with_the_values_and_widens_with_the_level(values: list[float], shift: float) -> None:
    one, moved = stats.mean(values), stats.mean([v + shift for v in values])
    assert one.low is not None
    assert one.high is not None
    assert one.low <= one.value <= one.high
    assert moved.value == pytest.approx(one.value + shift, rel=1e-6, abs=1e-3)
    wide = stats.mean(values, 0.99)
    assert wide.low is not None
    assert wide.low <= one.low


def test_intervals_cover_as_often_as_they_say() -> None:
    draws = np.random.default_rng(1).normal(3, 2, size=(4000, 5))
    covered = sum(e.low <= 3 <= e.high for e in map(stats.mean, draws) if e.low is not None and e.high is not None)
    # Binomial: 3800 +- 14; five of those on either side.
    assert 3800 - 70 < covered < 3800 + 70


def test_pairing_removes_what_variants_share() -> None:
    noise = np.random.default_rng(2).normal(0, 10, 6)
    a = dict(enumerate(noise + 1))
    b = dict(enumerate(noise + np.array([0, 0.1, -0.1, 0, 0.1, -0.1])))
    paired = stats.paired_difference(a, b)
    assert paired.value == pytest.approx(1)
    assert paired.low is not None
    assert paired.low > 0.8, "the difference is clear, though either variant varies ten times as much"
    assert stats.mean(list(a.values())).low < 0 < stats.mean(list(a.values())).high  # type: ignore[operator]


def test_pairs_are_found_by_seed() -> None:
    estimate = stats.paired_difference({1: 5, 2: 7, 3: 1}, {3: 0, 2: 5, 9: 100})
    assert (estimate.value, estimate.count) == (1.5, 2)


@given(st.lists(FINITE, min_size=2, max_size=10), st.lists(FINITE, min_size=10, max_size=10))
def test_paired_difference_changes_sign_with_its_sides(a: list[float], b: list[float]) -> None:
    there, back = (stats.paired_difference(dict(enumerate(x)), dict(enumerate(y))) for x, y in ((a, b), (b, a)))
    assert there.value == pytest.approx(-back.value, abs=1e-9)
    assert there.low == pytest.approx(-back.high, abs=1e-9)  # type: ignore[operator]


def test_percentiles() -> None:
    values = range(101)
    assert stats.percentiles(values, (0, 5, 50, 99, 100)) == {0: 0, 5: 5, 50: 50, 99: 99, 100: 100}
    assert stats.percentile([1, 2], 50) == 1.5
    assert math.isnan(stats.percentile([], 50))
    with pytest.raises(ValueError, match="q = 101"):
        stats.percentile([1], 101)


@pytest.mark.parametrize(
    ("values", "index"),
    [
        ([1, 1, 1, 1], 1),
        ([1, 0, 0, 0], 0.25),
        ([1, 1, 0, 0], 0.5),
        ([3, 4], 49 / 50),
        ([1e200, 1e200], 1),
        ([1e-200], 1),
    ],
)
def test_jain(values: list[float], index: float) -> None:
    assert stats.jain(values) == pytest.approx(index)


def test_jain_of_nothing() -> None:
    assert math.isnan(stats.jain([]))
    assert math.isnan(stats.jain([0, 0]))


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=20), st.floats(1e-3, 1e3))
def test_jain_has_its_bounds_and_no_unit(values: list[float], factor: float) -> None:
    index = stats.jain(values)
    assert 1 / len(values) - 1e-9 <= index <= 1 + 1e-9
    assert stats.jain([v * factor for v in values]) == pytest.approx(index)


def test_bootstrap_of_a_mean_agrees_with_t() -> None:
    values = np.random.default_rng(3).normal(10, 2, 60)
    ours = stats.bootstrap(values, lambda data: float(data.mean()))
    t = stats.mean(values)
    assert ours.value == pytest.approx(t.value)
    assert ours.interval == pytest.approx(t.interval, abs=0.1)
    assert ours == stats.bootstrap(values, lambda data: float(data.mean())), "the same seed, the same interval"


def test_bootstrap_of_a_median_covers() -> None:
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(200):
        estimate = stats.bootstrap(rng.exponential(1, 30), resamples=400)
        assert estimate.interval is not None
        covered += estimate.interval[0] <= math.log(2) <= estimate.interval[1]
    # 190 expected, standard deviation 3; the interval is known to be a little narrow for medians.
    assert covered >= 175


def test_bootstrap_of_little() -> None:
    assert stats.bootstrap([2.0]) == stats.Estimate(2.0, None, None, 1)
    assert stats.bootstrap([2.0, 2.0, 2.0]).interval == (2.0, 2.0)
    assert math.isnan(stats.bootstrap([]).value)


def test_mser_finds_the_end_of_a_warm_up() -> None:
    noise = np.random.default_rng(5).normal(0, 1, 1000)
    series = 100 + noise
    series[:200] -= np.linspace(60, 0, 200)
    cut = stats.mser(series)
    assert cut % 5 == 0
    assert 150 <= cut <= 230, "the last tenth of the ramp drowns in the noise"
    assert stats.without_warmup(series).mean() == pytest.approx(100, abs=0.5)
    assert abs(series.mean() - 100) > 4


def test_mser_by_hand() -> None:
    # Batches of one: 10, 0, 1, 0, 1, 0. Sum of squares about the mean by n^2: without a cut 78 / 36 = 2.17, after one
    # 1.2 / 25 = 0.048, after two 1 / 16 = 0.0625, after three 0.667 / 9 = 0.074.
    assert stats.mser([10, 0, 1, 0, 1, 0], batch=1) == 1


@pytest.mark.parametrize("series", [[], [1.0] * 7, [5.0] * 100])
def test_mser_cuts_nothing_where_there_is_nothing_to_cut(series: list[float]) -> None:
    assert stats.mser(series) == 0


@given(st.lists(FINITE, max_size=200), st.integers(1, 10))
def test_mser_keeps_at_least_half(series: list[float], batch: int) -> None:
    cut = stats.mser(series, batch)
    assert 0 <= cut <= len(series) / 2
    assert cut % batch == 0
