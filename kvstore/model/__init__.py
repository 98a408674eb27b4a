"""Models: predictions from settings, computed before any call is made.

    prediction    a number with its unit, its reason and its bottleneck; stations
    laws          Little's law, the mean service time of a mix, the mix of a workload
    bounds        bounds on throughput and residence time of a closed loop; the knee N*
    mva           exact mean values of a closed loop with exponential service times
    ramp_up       a closed loop while users join one after the other
    simulate      a closed loop simulated call by call, where no formula applies
    open_loop     an open loop simulated call by call
    overload      arrival rates above capacity: goodput, bursts, load shedding, retries
    tail_latency  servers that stall, and the slowest of several replies
    usl           the universal scalability law, fitted with intervals and warnings
    key_skew      unevenly used keys: the hottest lock, the busiest server
    batching      throughput with several operations in a message
    group_commit  throughput with several writes in an fsync
    failover      a cluster whose leader dies or stalls
    scaling       throughput with several client and server processes, until the cores are full
    memory        the memory of a client without a concurrency limit

The models import no client and no measurement, so that they cannot be fitted to the calls they
predict. Import `kvstore.model.usl` by name to fit the scalability law: it needs scipy, which takes
long to import, and every notebook imports this package.
"""

from kvstore.model import (
    batching,
    bounds,
    failover,
    group_commit,
    key_skew,
    laws,
    memory,
    mva,
    open_loop,
    overload,
    ramp_up,
    scaling,
    simulate,
    tail_latency,
)
from kvstore.model.laws import service_time_s
from kvstore.model.prediction import Prediction, Station

__all__ = [
    "Prediction",
    "Station",
    "batching",
    "bounds",
    "failover",
    "group_commit",
    "key_skew",
    "laws",
    "memory",
    "mva",
    "open_loop",
    "overload",
    "ramp_up",
    "scaling",
    "service_time_s",
    "simulate",
    "tail_latency",
]
