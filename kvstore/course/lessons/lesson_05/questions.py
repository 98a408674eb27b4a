"""What lesson 05 and its further lessons ask."""

from collections.abc import Sequence

from kvstore.course.lessons.lesson_05 import batch_ladder
from kvstore.course.questions import (
    Curve,
    Option,
    PredictionQuestion,
    QuizQuestion,
    computed,
    operations_in_a_call,
)
from kvstore.measure import Run
from kvstore.measure.cpu_cost import pace_s
from kvstore.model import Prediction


def by_the_round_trip(alone: Run, run: Run) -> Prediction:
    """Return N / D, with the shortest round trip of a run with one call in flight as D.

    No call is faster than the shortest, so this is an upper bound.
    """
    round_trip_s = alone.latency_s(0.0)
    reason = f"{run.in_flight} in flight, {1e3 * round_trip_s:.1f} ms for a round trip: N / D"
    return Prediction(run.in_flight / round_trip_s, "calls/s", reason, "calls in flight")


def times_of(first: Run, second: Run) -> float:
    """Return the throughput of the second run over that of the first."""
    return second.throughput_per_s / first.throughput_per_s


def by_processor_time(unary_probe: Run, stream_probe: Run, *runs: Run) -> Prediction:
    """Return the ratio of the bounds 1/D_max, with D_max from two earlier, shorter runs."""
    unary_us, stream_us = (1e6 * pace_s(run) for run in (unary_probe, stream_probe))
    reason = f"{unary_us:.0f} µs for a unary call, {stream_us:.0f} µs for a message of a stream"
    return Prediction(unary_us / stream_us, "times", reason, "CPU")


def cost_of(one: Run, large: Run) -> batch_ladder.Cost:
    """Return a and b of a message: from runs with 1 and with 1,024 operations in each."""
    return batch_ladder.cost(dict(zip(batch_ladder.ENDS, (one, large), strict=True)))


WINDOW_BYTES, REPLY_BYTES = 65_535, 16 * 1024
"""The window with which a stream begins in HTTP/2, and a reply of the further lesson on it."""


def replies_per_s(came_s: Sequence[float]) -> float:
    """Return the rate at which replies came, without the wait for the first one."""
    return (len(came_s) - 1) / (came_s[-1] - came_s[0])


def by_the_window(round_trip_s: float) -> Prediction:
    """Return W / round trip, in replies/s: what one stream carries with a window of W bytes.

    RFC 9113, section 5.2: a sender may have a window of bytes on their way, until it is granted
    more.
    """
    return Prediction(
        WINDOW_BYTES / REPLY_BYTES / round_trip_s,
        "replies/s",
        f"{WINDOW_BYTES / REPLY_BYTES:.0f} replies in a round trip of {1e3 * round_trip_s:.0f} ms",
        "flow control",
    )


PREDICTIONS = (
    PredictionQuestion(
        "05.unary_8",
        "8 unary calls in flight on one connection, the server 10 ms away: how many calls/s?",
        mistakes=(
            (
                100,
                "that waits for each reply: the calls of one connection overlap",
            ),
        ),
        measured=lambda alone, run: run,
        model=by_the_round_trip,
        main=True,
    ),
    PredictionQuestion(
        "05.stream_far",
        "A stream with a window of 8, the same server: how many times the throughput of the "
        "unary calls?",
        mistakes=(
            (
                8,
                "a unary call does not wait for the one before it on its connection",
            ),
            (
                2.9,
                "that is the Go article's figure: its slow client waited between two calls",
            ),
            (
                2,
                "N and D are those of the unary calls, and neither processor is full",
            ),
            (
                3,
                "N and D are those of the unary calls, and neither processor is full",
            ),
        ),
        unit="times",
        measured=times_of,
        model=lambda unary, stream: Prediction(
            1.0, "times", "N / D for both: the same N, and nearly the same D"
        ),
    ),
    PredictionQuestion(
        "05.stream_near",
        "No delay, 128 in flight: how many times the throughput of the unary calls does the "
        "stream reach?",
        mistakes=(
            (
                1,
                "N and D stay, and the processor is the bottleneck now: a message of a "
                "stream costs less of it",
            ),
            (
                128,
                "128 calls were in flight before, too: a stream saves CPU time, and no waiting",
            ),
        ),
        unit="times",
        measured=lambda unary_probe, stream_probe, unary, stream: times_of(unary, stream),
        model=by_processor_time,
        binds="cpu",
    ),
    Curve(
        "05.curve",
        "How many operations per second, for each number of operations in a message?",
        unit="operations/s",
        over="operations in a message, k",
        xs=(1, 4, 16, 64, 256, 1_024),
        least=1e3,
        most=1e7,
        log=True,
        measured=lambda *runs: {operations_in_a_call(r): r.throughput_per_s for r in runs},
        model=lambda one, large, *_: {
            k: cost_of(one, large).throughput(k).value for k in (1, 4, 16, 32, 64, 256, 1_024)
        },
        main=True,
        binds="cpu",
    ),
    # further lessons
    PredictionQuestion(
        "05.window",
        "A window of 64 KiB, replies of 16 KiB, 50 ms there and back: how many replies/s?",
        unit="replies/s",
        measured=lambda came_s, round_trip_s: replies_per_s(came_s),
        model=lambda came_s, round_trip_s: by_the_window(round_trip_s),
    ),
    computed(
        "05.times_faster",
        "How many times faster than the synchronous client is the pipelined one?",
        "times",
    ),
    computed("05.slow_write", "How many replies come before the reply of the write?", "replies"),
    computed(
        "05.peak",
        "4,096 operations in a message: how many per second?",
        "operations/s",
        main=True,
        binds="cpu",
    ),
    computed("05.log", "How many seconds does the log take with a window of 16?", "s"),
)

QUIZ = (
    QuizQuestion(
        "05.multiplexed",
        "A client sends 100 unary calls on one connection and does not wait between them. The "
        "first call takes 1 s, the others 10 ms. When do the other 99 replies come?",
        (
            Option(
                "After 1 s: a connection delivers replies in order.",
                why="HTTP/1.1 does that. HTTP/2 gives each call a stream of its own, and replies "
                "overtake each other.",
            ),
            Option(
                "After about 10 ms.",
                right=True,
                why="Each unary call is a stream of HTTP/2. The calls share the connection and do "
                "not wait for each other.",
            ),
            Option(
                "One after the other, every 10 ms.",
                why="That is a client that waits for each reply. This client does not wait.",
            ),
        ),
    ),
    QuizQuestion(
        "05.what_a_stream_adds",
        "The server is 100 ms away, and both processors are idle. You put the calls on a stream, "
        "with the same number in flight. What happens to the throughput?",
        (
            Option(
                "It stays the same.",
                right=True,
                why="X ≤ N/D, and neither N nor D changed. A stream saves CPU time, which was not "
                "the bottleneck.",
            ),
            Option(
                "It triples.",
                why="That is possible where CPU time is the bottleneck. Here the processors are "
                "idle.",
            ),
            Option(
                "It falls: replies on a stream come in order.",
                why="The messages of a stream are delivered in order, but our server replies when "
                "an operation ends. The id says which request a reply answers.",
            ),
        ),
    ),
    QuizQuestion(
        "05.larger_batch",
        "a = 90 µs, b = 0.5 µs. You go from 2,000 operations in a message to 8,000. What grows "
        "most?",
        (
            Option(
                "The throughput.",
                why="k/(a + bk) is 1.83 million at 2,000 and 1.96 million at 8,000: a gain of 7 %.",
            ),
            Option(
                "The time until a message is answered.",
                right=True,
                why="A message costs a + bk: 1.1 ms before, 4.1 ms now, nearly four times. Its "
                "first operation waits for its last.",
            ),
            Option(
                "The CPU time of an operation.",
                why="It falls a little: a/k + b was 0.55 µs and is 0.51 µs.",
            ),
        ),
    ),
)
