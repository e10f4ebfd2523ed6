"""Statistics of runs, in one place: intervals over seeds, paired comparison, percentiles, fairness, warm-up, bootstrap.

Values come as any sequence of numbers, one per seed or per sample. NaN and infinity are not dropped, and
have no interval.

Student's t is computed here rather than taken from SciPy. With whole degrees of freedom its distribution is a finite
sum (Abramowitz and Stegun 26.7.3 and 26.7.4). It would be SciPy's only use, and `scipy.stats` takes three times as long
to import as Polars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL: Final = 0.95
"""Default confidence level."""

_EXACT_UP_TO: Final = 200
"""Degrees of freedom up to which the finite sum is used; above, the expansion is as good as double precision."""

_NORMAL: Final = NormalDist()


@dataclass(frozen=True)
class Estimate:
    """A mean (or another statistic) with its confidence interval."""

    value: float
    """NaN without any values."""
    low: float | None
    """Lower end of the confidence interval; `None` where there is none (fewer than two values)."""
    high: float | None
    """Upper end."""
    count: int
    """Number of values."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, or `None`."""
        return None if self.low is None or self.high is None else (self.low, self.high)


# --- means over seeds -------------------------------------------------------------------------------------------------


def mean(values: ArrayLike, level: float = LEVEL) -> Estimate:
    """Mean with Student's t interval: right for means of independent, roughly normal values such as one per seed.

    Raises:
        ValueError: `level` is not between 0 and 1.
    """
    data = _vector(values)
    if data.size == 0:
        return Estimate(math.nan, None, None, 0)
    if not np.isfinite(data).all():
        # Infinite values ("never") have a mean, but no interval.
        with np.errstate(invalid="ignore"):
            return Estimate(float(data.mean()), None, None, data.size)
    # Identical values have no spread. Rounding of their mean must not make one.
    if data.min() == data.max():
        centre, half = float(data[0]), 0.0
    else:
        centre = math.fsum(data) / data.size
        variance = math.fsum((data - centre) ** 2) / (data.size - 1)
        half = student_t_quantile((1 + _level(level)) / 2, data.size - 1) * math.sqrt(variance / data.size)
    if data.size == 1:
        return Estimate(centre, None, None, 1)
    return Estimate(centre, centre - half, centre + half, data.size)


def paired_difference(a: Mapping[Any, float], b: Mapping[Any, float], level: float = LEVEL) -> Estimate:
    """Mean of `a - b` where both have the same seed, with Student's t interval over those differences.

    Two variants that are run with the same seed share what is drawn at random (start times, sizes), so that their
    difference varies less than either. Keys that only one of them has are left out: see `count`.
    """
    return mean([a[key] - b[key] for key in a if key in b], level)


def student_t_quantile(p: float, df: int) -> float:
    """The value below which Student's t with `df` degrees of freedom lies with probability `p`.

    Raises:
        ValueError: `p` is not between 0 and 1 (both excluded), or `df` is not a whole number of at least 1.
    """
    if not 0 < p < 1:
        raise ValueError(f"p = {p}: must be between 0 and 1")
    if isinstance(df, bool) or int(df) != df or df < 1:
        raise ValueError(f"df = {df}: must be a whole number, 1 or more")
    if p == 0.5:
        return 0.0
    return math.copysign(_t_upper(max(p, 1 - p), int(df)), p - 0.5)


@lru_cache(maxsize=256)
def _t_upper(p: float, df: int) -> float:
    if df == 1:
        return math.tan(math.pi * (p - 0.5))
    if df == 2:
        return (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    start = _t_expansion(p, df)
    if df > _EXACT_UP_TO:
        return start
    # The distribution is monotone, so bisect. 200 halvings exceed the precision of doubles.
    low, high = 0.0, max(start, 1.0)
    while student_t_cdf(high, df) < p:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if student_t_cdf(middle, df) < p else (low, middle)
    return (low + high) / 2


def student_t_cdf(t: float, df: int) -> float:
    """Probability that Student's t with `df` degrees of freedom is below `t` (Abramowitz and Stegun 26.7.3, 26.7.4)."""
    angle = math.atan2(abs(t), math.sqrt(df))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = df % 2
    # Odd: cos + 2/3 cos^3 + 2·4/(3·5) cos^5 ...; even: 1 + 1/2 cos^2 + 1·3/(2·4) cos^4 ...
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(1 + odd, df, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    within = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + math.copysign(within / 2, t)


def _t_expansion(p: float, df: int) -> float:
    # Cornish and Fisher's expansion about the normal quantile (Abramowitz and Stegun 26.7.5).
    z = _NORMAL.inv_cdf(p)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + g1 / df + g2 / df**2 + g3 / df**3 + g4 / df**4


# --- other statistics -------------------------------------------------------------------------------------------------


def percentile(values: ArrayLike, q: float) -> float:
    """The value that `q` percent of the values do not exceed, interpolated between neighbours (NumPy's default).

    NaN without any values.

    Raises:
        ValueError: `q` is not from 0 to 100.
    """
    if not 0 <= q <= 100:
        raise ValueError(f"q = {q}: must be from 0 to 100")
    data = _vector(values)
    return float(np.percentile(data, q)) if data.size else math.nan


def percentiles(values: ArrayLike, qs: Sequence[float] = (5, 25, 50, 75, 95, 99)) -> dict[float, float]:
    """Several percentiles by their `q`."""
    data = _vector(values)
    return {q: percentile(data, q) for q in qs}


def jain(values: ArrayLike) -> float:
    """Jain's fairness index, (sum x)^2 / (n · sum x^2): 1 if all are equal, 1/n if one has everything.

    Jain, Chiu and Hawe, DEC-TR-301, 1984. NaN without values, or where all are 0.
    """
    data = _vector(values)
    peak = float(np.abs(data).max()) if data.size else 0.0
    if peak == 0:
        return math.nan
    data = data / peak  # squares of large rates, and of tiny ones, stay numbers
    return float(data.sum() ** 2 / (data.size * (data**2).sum()))


def bootstrap(
    values: ArrayLike,
    statistic: Callable[[NDArray[np.float64]], float] = lambda data: float(np.median(data)),
    *,
    level: float = LEVEL,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """A statistic with a bootstrap interval, for medians, percentiles, ratios and other statistics that are not means.

    Bias-corrected and accelerated (Efron 1987). The same values and `seed` give the same interval. Under about ten
    values any bootstrap interval is too narrow; means of few values are better served by `mean`.
    """
    data = _vector(values)
    if data.size == 0:
        return Estimate(math.nan, None, None, 0)
    value = float(statistic(data))
    if data.size == 1:
        return Estimate(value, None, None, 1)
    draws = np.random.default_rng(seed).integers(data.size, size=(resamples, data.size))
    spread = np.sort([float(statistic(data[draw])) for draw in draws])
    if spread[0] == spread[-1]:
        return Estimate(value, float(spread[0]), float(spread[-1]), data.size)
    # The value's rank among the resampled ones. Ties count half, as for medians of few values.
    below = (np.count_nonzero(spread < value) + np.count_nonzero(spread <= value)) / (2 * resamples)
    bias = _NORMAL.inv_cdf(min(max(below, 0.5 / resamples), 1 - 0.5 / resamples))
    without = np.array([float(statistic(np.delete(data, i))) for i in range(data.size)])
    away = without.mean() - without
    scale = float((away**2).sum() ** 1.5)
    acceleration = float((away**3).sum()) / (6 * scale) if scale > 0 else 0.0

    def end(p: float) -> float:
        z = bias + _NORMAL.inv_cdf(p)
        return float(np.quantile(spread, _NORMAL.cdf(bias + z / (1 - acceleration * z))))

    tail = (1 - _level(level)) / 2
    return Estimate(value, end(tail), end(1 - tail), data.size)


# --- warm-up ----------------------------------------------------------------------------------------------------------


def mser(series: ArrayLike, batch: int = 5) -> int:
    """Number of samples at the start of a series that belong to the warm-up, by MSER-5.

    White, Cobb and Spratt, "A comparison of five steady-state truncation heuristics for simulation", WSC 2000: of all
    truncations of the series of batch means, the one after which the standard error of the mean is the least. Only the
    first half is searched: a minimum beyond it would rest on too few batches, and says that the series is too short.

    Returns:
        A multiple of `batch`; 0 for series of fewer than four batches.

    Raises:
        ValueError: `batch` is not positive.
    """
    if batch < 1:
        raise ValueError(f"batch = {batch}: must be 1 or more")
    data = _vector(series)
    count = data.size // batch
    if count < 4:
        return 0
    means = data[: count * batch].reshape(count, batch).mean(axis=1)
    means = means - means.mean()  # sums of squares of a small spread around a large level
    left = count - np.arange(count // 2 + 1)
    sums = np.cumsum(means[::-1])[::-1][: left.size]
    squares = np.cumsum((means**2)[::-1])[::-1][: left.size]
    errors = np.maximum(squares - sums**2 / left, 0) / left**2
    return int(np.argmin(errors)) * batch


def without_warmup(series: ArrayLike, batch: int = 5) -> NDArray[np.float64]:
    """The series after its warm-up: see `mser`."""
    data = _vector(series)
    return data[mser(data, batch) :]


def _vector(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64).reshape(-1)


def _level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level = {level}: must be between 0 and 1")
    return level


__all__ = [
    "LEVEL",
    "Estimate",
    "bootstrap",
    "jain",
    "mean",
    "mser",
    "paired_difference",
    "percentile",
    "percentiles",
    "student_t_cdf",
    "student_t_quantile",
    "without_warmup",
]
