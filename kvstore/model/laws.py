"""Laws that hold whatever the distribution: Little's and the utilisation law.

L = lambda W: J. D. C. Little, Operations Research 9 (1961). U = X D: P. J. Denning and
J. P. Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing
Surveys 10 (1978).
"""

from collections.abc import Mapping


def in_flight(throughput_per_s: float, residence_s: float) -> float:
    """L = X * W: the mean number in flight, from calls per second and seconds per call."""
    return throughput_per_s * residence_s


def throughput_per_s(calls_in_flight: float, residence_s: float) -> float:
    """X = L / W: calls per second that keep this many in flight. Raises for W of 0."""
    if not residence_s > 0:
        raise ValueError(f"residence_s must be above 0 seconds, got {residence_s}")
    return calls_in_flight / residence_s


def utilisation(rate_per_s: float, demand_s: float) -> float:
    """U = X * D: the share of its time that a station is busy, or how many of its servers."""
    return rate_per_s * demand_s


def service_time_s(mix: Mapping[str, float], *, read_delay_s: float, write_delay_s: float) -> float:
    """Mean disk time of one operation: W = sum over kinds of share times delay, in seconds.

    `mix` gives a share or a count for each kind ("create", "retrieve", "update", "delete");
    only their proportions matter. Raises `ValueError` when it names no kind, or another.
    """
    known = {"create", "retrieve", "update", "delete"}
    if set(mix) - known:
        raise ValueError(f"mix may name {sorted(known)}, got {sorted(mix)}")
    total = sum(mix.values())
    if not total > 0:
        raise ValueError("mix is empty: no operation was counted")
    reads = mix.get("retrieve", 0.0) / total
    return reads * read_delay_s + (1 - reads) * write_delay_s
