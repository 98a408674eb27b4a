"""Lesson 08: the highest rate that keeps a percentile below a target."""

import math

from hypothesis import strategies as st

from kvstore.course.exercises import Exercise
from kvstore.course.exercises.grading import Drawn


def rate_for(service_s: float, share: float, within_s: float) -> float:
    """Return the highest rate at which this share of the calls ends in time."""
    return max(0.0, 1 / service_s - math.log(1 / (1 - share)) / within_s)


RATES = st.fixed_dictionaries(
    {
        "service_s": st.integers(1, 200).map(lambda n: n / 1000),
        "share": st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]),
        "within_s": st.integers(1, 5000).map(lambda n: n / 1000),
    }
)
RATE_FOR = Exercise(
    id="08.rate_for",
    title="The highest rate that keeps a percentile",
    hints=(
        "The percentile must equal the target: R · ln(1/(1 - share)) = T. What may R be?",
        "R = S / (1 - U), and U = λ·S. So 1/R = 1/S - λ. Solve for λ.",
        "λ = 1/S - ln(1/(1 - share))/T, and `max(0.0, ...)` where that is below 0.",
    ),
    reference=rate_for,
    judge=Drawn(
        rate_for,
        RATES,
        mistakes=(
            (
                "A rate below 0 means that even an idle server is too slow: return 0.",
                lambda service_s, share, within_s: (
                    1 / service_s - math.log(1 / (1 - share)) / within_s
                ),
            ),
            (
                "That keeps the *mean* within the target. The percentile is a multiple of the "
                "mean.",
                lambda service_s, share, within_s: max(0.0, 1 / service_s - 1 / within_s),
            ),
            (
                "`share` of the calls are in time, and 1 - share are late: which one is in the "
                "logarithm?",
                lambda service_s, share, within_s: max(
                    0.0, 1 / service_s - math.log(1 / share) / within_s
                ),
            ),
            (
                "That is the utilisation. The arrival rate is U / S.",
                lambda service_s, share, within_s: max(
                    0.0, 1 - service_s * math.log(1 / (1 - share)) / within_s
                ),
            ),
            (
                "`math.log10` is another logarithm. The percentile needs `math.log`.",
                lambda service_s, share, within_s: max(
                    0.0, 1 / service_s - math.log10(1 / (1 - share)) / within_s
                ),
            ),
            (
                "4.6 is the factor of the p99 only: compute it from `share`.",
                lambda service_s, share, within_s: max(
                    0.0, 1 / service_s - math.log(100) / within_s
                ),
            ),
            (
                "That is a part of the ceiling, whatever the target is. Begin with R = S / (1 - "
                "U).",
                lambda service_s, share, within_s: share / service_s,
            ),
            (
                "That is the ceiling, U = 1: the queue grows without end there.",
                lambda service_s, share, within_s: 1 / service_s,
            ),
            (
                "The percentile of R has the service in it already: do not take S off the target.",
                lambda service_s, share, within_s: max(
                    0.0, 1 / service_s - math.log(1 / (1 - share)) / (within_s - service_s)
                ),
            ),
        ),
        right="λ = 1/S - ln(1/(1 - share))/T. The second term is the capacity that must stay free: "
        "it depends on the target alone, not on S.",
    ),
)
