"""What lesson 14 and its further lessons ask."""

import numpy as np

from kvstore.course.lessons.lesson_14.etcd_runs import Failover
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion, number_question
from kvstore.measure import Run
from kvstore.model import Prediction, batching, tail_latency


def log_of(lone: Run, pair: Run) -> dict[str, float]:
    """Return f and r in seconds: the time of one commit, and of a call outside the log.

    With two writes in flight the log is never idle, so a commit ends every f seconds. One write
    alone takes r + f.
    """
    commit_s = float(np.median(np.diff(pair.records["done_s"])))
    return {"fsync_s": commit_s, "way_s": max(0.0, lone.latency_s(0.5) - commit_s)}


def _gap(run: Failover) -> Prediction:
    return tail_latency.gap(run.election_timeout_s, nodes=3, heartbeat_s=run.heartbeat_s)


PREDICTIONS = (
    PredictionQuestion(
        "14.one_by_one",
        "16 writes in flight, 10 ms for a commit, and each write has its own: how many per second?",
        measured=lambda run, lone, pair: run.answered_per_s,
        model=lambda run, lone, pair: batching.one_by_one(run.in_flight, **log_of(lone, pair)),
    ),
    PredictionQuestion(
        "14.in_groups",
        "The same, and all writes that wait share one commit: how many per second?",
        measured=lambda run, lone, pair: run.answered_per_s,
        model=lambda run, lone, pair: batching.in_groups(run.in_flight, **log_of(lone, pair)),
        main=True,
    ),
    PredictionQuestion(
        "14.gap",
        "The leader is killed: for how many seconds is no write acknowledged?",
        unit="s",
        measured=lambda run: run.mean_gap_s(),
        model=_gap,
    ),
)

QUIZ = (
    QuizQuestion(
        "14.killed",
        "You kill a server with `kill -9`, and after a restart all its acknowledged writes are"
        " there. What does that show?",
        (
            Option(
                "The data had left the memory of the process.",
                right=True,
                why="The kernel keeps what a killed process has written, with or without an fsync.",
            ),
            Option(
                "The data were on the disk before they were acknowledged.",
                why="They may have been in the kernel's page cache, which a loss of power erases.",
            ),
            Option(
                "Every write had an fsync.",
                why="Without any fsync the result would be the same: the kernel did not crash.",
            ),
        ),
    ),
    number_question(
        "14.group",
        "An fsync takes {f} ms, and {n} writes are in flight, in groups, on a log that never waits."
        " How long does a write take?",
        "ms",
        (lambda f, n: 2 * f, "The group before it, and its own: R = 2f, whatever N is."),
        (lambda f, n: f, "It first waits for the group before it: the log is busy."),
        (lambda f, n: f * n, "That is one by one: a commit for each write."),
        f=(5, 4, 8),
        n=(40, 16, 30),
    ),
    QuizQuestion(
        "14.timeout",
        "You set etcd's election timeout to a tenth. What do you gain, and what do you risk?",
        (
            Option(
                "A shorter gap; and elections when the leader was only slow for a moment.",
                right=True,
                why="The gap is about 4T/3. A pause of the leader longer than T costs an election.",
            ),
            Option(
                "Faster writes; and lost ones.",
                why="A write waits for a majority, not for the timeout, and no timeout loses one.",
            ),
            Option(
                "A shorter gap without a leader; and two leaders that both acknowledge writes.",
                why="A leader needs a majority for every write, and two majorities share a node.",
            ),
        ),
    ),
    QuizQuestion(
        "14.unknown",
        "A Create ended with UNAVAILABLE while the leader was killed. What do you know?",
        (
            Option(
                "It was not executed.",
                why="The leader may have stored it and died before it answered.",
            ),
            Option(
                "It was executed.", why="The call may have reached no node that could commit it."
            ),
            Option(
                "Nothing: read the key, or send a call that may be repeated.",
                right=True,
                why="A second Create that finds its own key says ALREADY_EXISTS. Without an id in"
                " the value you cannot tell whose it is.",
            ),
        ),
    ),
)

PART_QUIZ = (
    QuizQuestion(
        "14.part_hashed",
        "Two servers need 10 ms and 40 ms for a call, one at a time. The key of a call "
        "decides which of them can answer; each gets half. How many calls/s at most?",
        (
            Option(
                "125",
                why="That is 100 + 25. It needs a free choice for each call, and here the key "
                "decides.",
            ),
            Option(
                "50",
                right=True,
                why="The slow server passes 25 calls/s, and it gets half of the calls. Move keys "
                "away from it to get more.",
            ),
            Option(
                "25",
                why="That is what the slow server passes. The other one answers as many.",
            ),
        ),
    ),
    QuizQuestion(
        "14.part_more_writes",
        "A group of three nodes is full: its leader has no more time. No key is hot. What "
        "raises the writes per second?",
        (
            Option(
                "two more nodes in the group",
                why="The same leader then sends each write to four followers.",
            ),
            Option(
                "a second group, with half of the keys",
                right=True,
                why="Each group has its own leader. No key is split, so the order of its writes "
                "stays with one leader.",
            ),
            Option(
                "clients that choose the node with the fewest open calls",
                why="Whichever node gets a write, the leader has to order it.",
            ),
        ),
    ),
    QuizQuestion(
        "14.part_hot_write",
        "Each write holds the lock of its key until its fsync has ended, 5 ms. The hottest "
        "key gets 5 % of the writes. How many writes/s at most, with any number of servers?",
        (
            Option(
                "200",
                why="That is the bound of the hottest *key*. The other keys have locks of their "
                "own.",
            ),
            Option(
                "4,000",
                right=True,
                why="The hottest key takes 1 / 5 ms = 200 writes/s, and these are 5 % of all. "
                "Servers do not split a key.",
            ),
            Option(
                "There is no bound: add servers.",
                why="New servers take other keys. The hottest key stays on one server.",
            ),
        ),
    ),
    QuizQuestion(
        "14.part_stall",
        "Each of three nodes stalls for 1 % of the time, independently. Which operation is "
        "late least often?",
        (
            Option(
                "a write, because two of three nodes are enough",
                why="A write also needs the leader, which stalls for 1 % of the time.",
            ),
            Option(
                "a read that may be old, from the node with the fewest open calls",
                right=True,
                why="Any node can answer, and open calls pile up at one that stalls. So the "
                "client soon avoids it.",
            ),
            Option(
                "a read that has to see the last write",
                why="It needs the leader, or an answer from a majority. One free node is not "
                "enough.",
            ),
        ),
    ),
    QuizQuestion(
        "14.part_killed",
        "A client has one channel to one of six servers. That server is killed with `kill -9`"
        " during a Create. What happens?",
        (
            Option(
                "The channel connects again, and gRPC repeats the Create.",
                why="gRPC repeats by itself only a call that surely reached no handler. This one "
                "may have been executed.",
            ),
            Option(
                "The channel connects again. Whether the Create was executed is unknown.",
                right=True,
                why="A channel finds another server for the *next* call. This call ends with "
                "UNAVAILABLE, and your client has to find out.",
            ),
            Option(
                "The channel is broken, and the write is lost.",
                why="A channel connects again. And no answer does not say that nothing was "
                "written.",
            ),
        ),
    ),
)
