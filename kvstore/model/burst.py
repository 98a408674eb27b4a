"""A burst: so many calls at once, and a server that answers them one after the other.

Fluid arithmetic: calls arrive at a rate lambda while they are sent and leave at a rate X, and
the rest waits in between.
"""

from collections.abc import Sequence

from kvstore.model.prediction import Prediction, Station


def drain(calls: int, stations: Sequence[Station]) -> Prediction:
    """Seconds until a burst is answered: N / X, with X of the station that serves the fewest.

    Raises `ValueError` without a call, or without a station that takes time.
    """
    slowest = _slowest(calls, stations)
    return Prediction(
        calls / slowest.most_per_s,
        "s",
        f"{calls:,} calls, and {slowest.name} serves {slowest.most_per_s:,.0f} a second: N / X",
        slowest.name,
    )


def last_wait(calls: int, stations: Sequence[Station], sent_per_s: float) -> Prediction:
    """Seconds that the call which was sent last is under way: N / X - N / lambda.

    At least what it takes at all stations alone. Raises as `drain` does, and for no rate.
    """
    if not sent_per_s > 0:
        raise ValueError(f"sent_per_s must be above 0 calls per second, got {sent_per_s}")
    slowest = _slowest(calls, stations)
    alone_s = sum(station.demand_s for station in stations)
    wait_s = calls / slowest.most_per_s - calls / sent_per_s
    return Prediction(
        max(alone_s, wait_s),
        "s",
        f"answered after {calls / slowest.most_per_s:,.3g} s,"
        f" sent after {calls / sent_per_s:,.3g} s: N / X - N / λ",
        slowest.name if wait_s > alone_s else "",
    )


def left_by_shedding(
    calls: int, limit: int, *, served_per_s: float, sent_per_s: float
) -> Prediction:
    """Calls of a burst that are answered when only `limit` are let in at once.

    The places fill at once, and while the burst is sent, N / lambda seconds, each answer frees
    one: L + X * N / lambda, at most N. Raises `ValueError` for a limit or rate not above 0.
    """
    for name, value in {
        "calls": calls, "limit": limit, "served_per_s": served_per_s, "sent_per_s": sent_per_s
    }.items():  # fmt: skip
        if not value > 0:
            raise ValueError(f"{name} must be above 0, got {value}")
    lasts_s = calls / sent_per_s
    return Prediction(
        min(float(calls), limit + served_per_s * lasts_s),
        "calls",
        f"{limit:,} places, and {served_per_s:,.0f} answers a second for the {lasts_s:.3g} s"
        " of sending: L + X·N/λ",
        "places at the server",
    )


def _slowest(calls: int, stations: Sequence[Station]) -> Station:
    if calls < 1:
        raise ValueError(f"calls must be 1 or more, got {calls}")
    slowest = min(stations, key=lambda station: station.most_per_s, default=None)
    if slowest is None or not slowest.demand_s > 0:
        raise ValueError("no station takes any time: nothing limits the rate")
    return slowest
