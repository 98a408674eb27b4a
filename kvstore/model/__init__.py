"""The room of what should happen: arithmetic on settings, before any call is made.

    prediction  a number, its reason and the station that binds
    laws        Little's law, the utilisation law, the mean service time of a mix
    mix         what a client sends that can only ask for keys it knows
    bounds      throughput and residence time of a closed loop, N*
    climb       the same while users join one after the other
    mva         the same, exactly, where calls queue at several stations
    simulate    the closed loop played through, call by call, for what no formula says
    overload    more calls than can be answered: what is still in time
    open_loop   the same played through, for calls that come by chance
    retries     what a crowd that asks again costs
    stalls      a server that stands still now and then
    usl         a line through measured throughputs, with intervals and warnings
    popularity  how unevenly keys are asked for, and the lock of the hottest
    batching    what many operations in one message bring, and where more is waste
    commits     what one fsync for many writes brings
    quorum      the w-th fastest of n servers, and how often there are w
    processes   what several generators and servers bring, until the cores bind
    burst       thousands of calls at once: when they are answered, and what shedding leaves
    memory      when an unlimited sender reaches a memory ceiling

It imports nothing of ours: a model that can call is soon fitted to the calls. Who fits says
`from kvstore.model import usl`: scipy is heavy, and the door is opened in every notebook.
"""

from kvstore.model import (
    batching,
    bounds,
    burst,
    climb,
    commits,
    laws,
    memory,
    mva,
    open_loop,
    overload,
    popularity,
    processes,
    quorum,
    retries,
    simulate,
    stalls,
)
from kvstore.model.laws import service_time_s
from kvstore.model.prediction import Prediction, Station

__all__ = [
    "Prediction",
    "Station",
    "batching",
    "bounds",
    "burst",
    "climb",
    "commits",
    "laws",
    "memory",
    "mva",
    "open_loop",
    "overload",
    "popularity",
    "processes",
    "quorum",
    "retries",
    "service_time_s",
    "simulate",
    "stalls",
]
