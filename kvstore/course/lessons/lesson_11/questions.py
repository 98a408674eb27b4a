"""What lesson 11 and its further lessons ask, and what their claims depend on."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kvstore.course.lessons.lesson_11.etcd_runs import Failover, Puts, Reads
from kvstore.course.lessons.lesson_11.redis_runs import Sets
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion
from kvstore.measure import Run
from kvstore.model import Prediction, batching, tail_latency

MANY = 32
"""Clients of the prediction."""


def group(clients: int) -> Prediction:
    """Return how many writes share an fsync: one group is written while the other one gathers."""
    return Prediction(
        max(1.0, clients / 2),
        "calls",
        "one half waits for the fsync, the other half gathers: N / 2",
    )


def gains(sets: Sets, runs: Mapping[int, Run]) -> dict[str, float]:
    """Return throughput over that of one client, for our server and for Redis."""
    return {
        "ours, N = 1": 1.0,
        f"ours, N = {MANY}": runs[MANY].answered_per_s / runs[1].answered_per_s,
        "Redis, N = 1": 1.0,
        f"Redis, N = {MANY}": sets.durable[MANY] / sets.durable[1],
    }


FURTHER = (
    PredictionQuestion(
        "11.redis_group",
        "32 clients of Redis, `appendfsync always`: how many SETs share one fsync?",
        unit="calls",
        measured=lambda sets: sets.sets_per_fsync(MANY),
        model=lambda sets: group(MANY),
    ),
    PredictionQuestion(
        "11.redis_rate",
        "How many SETs per second do 32 clients get?",
        measured=lambda sets: sets.durable[MANY],
        model=lambda sets: sets.predicted(MANY),
    ),
)


def fsync_costs(sets: Sets) -> bool:
    """Whether one client has fewer SETs per second with an fsync than without, by a fifth."""
    return sets.durable[1] < 0.8 * sets.volatile[1]


def redis_shares(sets: Sets) -> bool:
    """Whether one client has an fsync for each SET, and 32 clients share each one by four."""
    return sets.sets_per_fsync(1) < 1.2 and 4 < sets.sets_per_fsync(MANY) <= MANY


def both_gain(found: Mapping[str, float]) -> bool:
    """Whether both servers have at least 1.3 times the writes of one client."""
    return min(found[f"ours, N = {MANY}"], found[f"Redis, N = {MANY}"]) > 1.3


# ---- the lesson ---------------------------------------------------------------------------------
# The predictions and the quiz of lesson 11, and what its claims depend on.


def log_of(lone: Run, pair: Run) -> dict[str, float]:
    """Return f and r in seconds: the time of one commit, and of a call outside the log.

    With two writes in flight the log is never idle, so a commit ends every f seconds. One write
    alone takes r + f.
    """
    commit_s = float(np.median(np.diff(pair.records["done_s"])))
    return {"fsync_s": commit_s, "way_s": max(0.0, lone.latency_s(0.5) - commit_s)}


def most(puts: Puts) -> int:
    """Return the largest number of puts in flight."""
    return max(run.in_flight for run in puts.runs)


def _gap(run: Failover) -> Prediction:
    return tail_latency.gap(run.election_timeout_s, nodes=3, heartbeat_s=run.heartbeat_s)


PREDICTIONS = (
    PredictionQuestion(
        "11.one_by_one",
        "16 writes in flight, 10 ms for a commit, and each write has its own: how many per second?",
        measured=lambda run, lone, pair: run.answered_per_s,
        model=lambda run, lone, pair: batching.one_by_one(run.in_flight, **log_of(lone, pair)),
    ),
    PredictionQuestion(
        "11.in_groups",
        "The same, and all writes that wait share one commit: how many per second?",
        measured=lambda run, lone, pair: run.answered_per_s,
        model=lambda run, lone, pair: batching.in_groups(run.in_flight, **log_of(lone, pair)),
        main=True,
    ),
    PredictionQuestion(
        "11.puts",
        "32 puts in flight to three nodes of etcd: how many puts per second?",
        measured=lambda puts: puts.of(MANY).puts_per_s,
        model=lambda puts: puts.predicted(MANY),
        binds="cpu",
    ),
    PredictionQuestion(
        "11.gap",
        "The leader is killed: for how many seconds is no write acknowledged?",
        unit="s",
        measured=lambda run: run.mean_gap_s(),
        model=_gap,
    ),
    *FURTHER,
)

QUIZ = (
    QuizQuestion(
        "11.killed",
        "You kill a server with `kill -9`, and after a restart all its acknowledged writes are"
        " there. What does that show?",
        (
            Option(
                "The data had left the memory of the process.",
                right=True,
                why="The kernel keeps what a killed process has written, with or without an fsync.",
            ),
            Option(
                "The data were on the disk.",
                why="They may have been in the kernel's page cache, which a loss of power erases.",
            ),
            Option(
                "Every write had an fsync.",
                why="Without any fsync the result would be the same: the kernel did not crash.",
            ),
        ),
    ),
    QuizQuestion(
        "11.group",
        "An fsync takes 5 ms, and 40 writes are in flight, in groups. How long does a write take?",
        (
            Option("5 ms", why="It first waits for the group before it: the log is busy."),
            Option(
                "10 ms", right=True, why="The group before it, and its own: R = 2f, whatever N is."
            ),
            Option("200 ms", why="That is one by one: 40 commits of 5 ms."),
        ),
    ),
    QuizQuestion(
        "11.timeout",
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
                "A shorter gap; and two leaders that both acknowledge writes.",
                why="A leader needs a majority for every write, and two majorities share a node.",
            ),
        ),
    ),
    QuizQuestion(
        "11.unknown",
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


# ---- what the claims depend on -------------------------------------------------------------


def as_promised(there: Mapping[str, tuple[int, int]]) -> bool:
    """Whether the store in memory lost every acknowledged write, and the one on disk none."""
    lost, of = there["memory"]
    kept, of_disk = there["disk"]
    return lost == 0 < of and kept == of_disk > 0


def groups_help(each: Run, group: Run) -> bool:
    """Whether writes in groups are at least 1.3 times as many, and answered sooner."""
    return (
        group.answered_per_s > 1.3 * each.answered_per_s
        and group.mean_residence_s < each.mean_residence_s
    )


def none_failed(runs: Mapping[str, Mapping[int, Run]]) -> bool:
    """Whether every write of all these runs ended OK."""
    return all(run.issued == run.operations_ok for by_n in runs.values() for run in by_n.values())


def commits_are_shared(puts: Puts) -> bool:
    """Whether one put alone has its own fsync, and many in flight share them."""
    alone, many = puts.runs[0], puts.of(most(puts))
    return alone.puts_per_fsync < 1.5 and many.puts_per_fsync > 1.5 * alone.puts_per_fsync


def more_in_flight_helps(puts: Puts) -> bool:
    """Whether the most in flight have at least 1.3 times the puts of one."""
    return puts.of(most(puts)).puts_per_s > 1.3 * puts.runs[0].puts_per_s


def majority_decides(reads: Reads) -> bool:
    """Whether a linearizable read needs a majority, and a serializable one only its own node."""
    *with_majority, alone = reads.linearizable_s.values()
    return None not in with_majority and alone is None and None not in reads.serializable_s.values()


def none_missing(run: Failover) -> bool:
    """Whether writes were acknowledged before and after the kills, and every one was found."""
    answered = run.acknowledged_s
    return (
        run.missing == 0
        and bool(answered)
        and answered[0] < run.kills_s[0]
        and answered[-1] > run.kills_s[-1]
    )


def gap_in_range(run: Failover) -> bool:
    """Whether no gap is shorter than half of the election timeout: no follower stands sooner."""
    return min(run.gaps_s()) > 0.5 * run.election_timeout_s


def unknown_in_words(run: Any) -> str:
    """Return how the writes without an answer ended, and how many were executed all the same."""
    count = sum(run.unknown.values())
    words = ", ".join(f"{number:,} {status}" for status, number in sorted(run.unknown.items()))
    return f"{count:,} writes have no answer ({words}); {run.unknown_found} of them are there"
