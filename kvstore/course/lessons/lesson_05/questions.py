"""What lesson 05 and its further lessons ask."""

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
from kvstore.measure.cpu_cost import cpu_per_call_s
from kvstore.model import Prediction, batching


def times_of(first: Run, second: Run) -> float:
    """Return the throughput of the second run over that of the first."""
    return second.throughput_per_s / first.throughput_per_s


def cpu_of(first: Run, second: Run) -> float:
    """Return the CPU time of client and server for a call of the second run over the first's."""
    return cpu_per_call_s(second).together_s / cpu_per_call_s(first).together_s


def cost_of(one: Run, large: Run) -> batch_ladder.Cost:
    """Return a and b: from the time between two messages, with 1 and with 1,024 operations."""
    seconds = {operations_in_a_call(run): 1 / run.answered_per_s for run in (one, large)}
    a_s, b_s = batching.fit({round(size): each for size, each in seconds.items()})
    return batch_ladder.Cost(max(a_s, 0.0), max(b_s, 1e-9))


WINDOW_BYTES, REPLY_BYTES = 65_535, 16 * 1024
"""The window with which a stream begins in HTTP/2, and a reply of the further lesson on it."""


PREDICTIONS = (
    PredictionQuestion(
        "05.stream_far",
        "8 in flight, the server 10 ms away: how many times the throughput of unary calls does a "
        "stream reach?",
        unit="times",
        measured=times_of,
        model=lambda unary, stream: Prediction(
            1.0, "times", "N / D for both: the same N, and nearly the same D"
        ),
    ),
    PredictionQuestion(
        "05.stream_cpu",
        "64 in flight, no disk: how many times the CPU time of a unary call does a message of a "
        "stream take, client and server together?",
        unit="times",
        measured=cpu_of,
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
    computed(
        "05.window",
        "A window of 64 KiB, replies of 16 KiB, 50 ms there and back: how many replies/s?",
        "replies/s",
    ),
    computed("05.slow_write", "How many replies come before the reply of the write?", "replies"),
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
