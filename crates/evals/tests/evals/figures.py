"""Writes figures of scipy and choix for random cases, one JSON object a line, for the test in `figures.rs`.

    pip install scipy==1.17.1 choix==0.4.1
    python figures.py > figures.jsonl
"""

import json
import math
from fractions import Fraction

import choix
import numpy
from scipy import stats

EACH = 150
draw = numpy.random.default_rng(11)


def write(kind, **row):
    print(json.dumps({"kind": kind, **row}))


def whole(low, high):
    return int(draw.integers(low, high + 1))


def clusters():
    count = whole(2, 40)
    return [[float(x) for x in draw.normal(draw.normal(0, 2), 1.5, whole(1, 6))] for _ in range(count)]


def clustered(groups):
    """The mean, its standard error by clusters (CR1 without a correction of its own), and the degrees of freedom."""
    values = numpy.concatenate([numpy.array(group) for group in groups])
    mean, count = values.mean(), len(groups)
    squares = sum((numpy.array(group) - mean).sum() ** 2 for group in groups)
    return mean, math.sqrt(count / (count - 1) * squares) / len(values), count - 1


for _ in range(EACH):
    trials = whole(1, 400)
    successes = whole(0, trials)
    interval = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    write("wilson", trials=trials, successes=successes, lower=interval.low, upper=interval.high)

    groups = clusters()
    mean, error, degrees = clustered(groups)
    lower, upper = stats.t.interval(0.95, degrees, mean, error)
    write("mean", groups=groups, mean=mean, lower=lower, upper=upper)

    samples = whole(3, 120)
    base = draw.normal(0, 3, samples)
    other = base + draw.normal(0.3, 1, samples)
    test = stats.ttest_rel(other, base)
    interval = test.confidence_interval(0.95)
    spread = numpy.std(other - base, ddof=1)
    detectable = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * spread / math.sqrt(samples)
    write(
        "paired",
        base=base.tolist(),
        other=other.tolist(),
        lower=interval.low,
        upper=interval.high,
        p=test.pvalue,
        detectable=detectable,
    )

    one, two = whole(0, 60), whole(0, 60)
    exact = stats.binomtest(min(one, two), one + two).pvalue if one + two else 1.0
    mid = exact - stats.binom.pmf(min(one, two), one + two, 0.5) if one != two else None
    write("mcnemar", one=one, two=two, exact=exact, mid=mid)

    trials = whole(1, 60)
    successes, tries = whole(0, trials), whole(1, trials)
    every = math.comb(trials, tries)
    write(
        "repeats",
        trials=trials,
        successes=successes,
        k=tries,
        any=float(1 - Fraction(math.comb(trials - successes, tries), every)),
        all=float(Fraction(math.comb(successes, tries), every)),
    )

    contenders = whole(2, 6)
    strengths = draw.normal(0, 0.7, contenders)
    games, pairs = [], []
    for first in range(contenders):
        for second in range(first + 1, contenders):
            for _ in range(whole(6, 20)):
                chance = 1 / (1 + math.exp(strengths[second] - strengths[first]))
                won = [1.0, 0.0, 0.5][0 if draw.random() < chance * 0.8 else 1 if draw.random() < 0.7 else 2]
                games.append([first, second, won])
                # A tie is half a win for each, so that a win counts twice.
                pairs += {1.0: [(first, second)] * 2, 0.0: [(second, first)] * 2, 0.5: [(first, second), (second, first)]}[won]
    try:
        found = choix.ilsr_pairwise(contenders, pairs, alpha=0.0, tol=1e-13, max_iter=10_000)
        found = (found - found.mean()).tolist()
    except (ValueError, RuntimeError):
        found = None
    if found is None or max(map(abs, found)) < 15:
        write("strengths", contenders=contenders, games=games, logs=found)

    values = sorted(draw.random(whole(1, 9)) ** 3)
    order = draw.permutation(len(values))
    highest, adjusted = 0.0, [0.0] * len(values)
    for rank, value in enumerate(values):
        highest = max(highest, (len(values) - rank) * value)
        adjusted[order[rank]] = min(1.0, highest)
    given = [0.0] * len(values)
    for rank, value in enumerate(values):
        given[order[rank]] = value
    write("holm", values=[float(v) for v in given], adjusted=[float(v) for v in adjusted])
