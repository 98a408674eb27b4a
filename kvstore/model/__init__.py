"""Models: predictions from settings, computed before any call is made.

    bounds        predictions with their reasons; bounds of a closed loop, the knee N*, and its
                  exact mean values with exponential service times (MVA)
    waiting       arrival rates below capacity: mean residence times
    overload      arrival rates above capacity: goodput, bursts, shedding, retries, memory
    tail_latency  servers that stall or die, and the slowest of several replies
    batching      throughput with several operations in a message, or several writes in an fsync
    scaling       several servers with keys used unevenly: the share of the busiest one

The models import no client and no measurement, so that they cannot be fitted to the calls they
predict.
"""

from kvstore.model import batching, bounds, overload, scaling, tail_latency, waiting
from kvstore.model.bounds import Prediction, Station, service_time_s

__all__ = [
    "Prediction",
    "Station",
    "batching",
    "bounds",
    "overload",
    "scaling",
    "service_time_s",
    "tail_latency",
    "waiting",
]
