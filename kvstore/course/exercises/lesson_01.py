"""Lesson 01: the rate of a mix, and a client of one's own that makes one call at a time."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from numbers import Real
from typing import Any

from kvstore.client import load, workload
from kvstore.client.client import Client
from kvstore.client.schedule import Schedule
from kvstore.client.workload import create, retrieve, update
from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.measure import Run
from kvstore.server import serving

# ---- from what was sent to calls per second ------------------------------------------------

SENT = {"create": 16, "retrieve": 8, "update": 8, "delete": 8}
READ_MS, WRITE_MS = 10, 50


def calls_per_s(sent: Mapping[str, int], read_s: float, write_s: float) -> float:
    """Calls per second of a client with one call in flight that sends these operations."""
    reads = sent.get("retrieve", 0)
    writes = sum(sent.values()) - reads
    mean_s = (reads * read_s + writes * write_s) / (reads + writes)
    return 1 / mean_s


def _judge_calls_per_s(answer: Any) -> Verdict:
    rate = answer(dict(SENT), READ_MS / 1e3, WRITE_MS / 1e3)
    if not isinstance(rate, Real):
        return not_yet(f"a number of calls per second is asked for, got {rate!r}.")
    for value, why in _LIKELY_RATES.items():
        if _near(float(rate), value):
            return not_yet(why)
    if not _near(float(rate), 1 / 0.042):
        return not_yet(
            f"16 creates, 8 retrieves, 8 updates and 8 deletes gave {float(rate):.4g} calls/s. "
            "How long do all 40 calls take together, one after the other?"
        )
    few = answer({"retrieve": 3, "update": 1}, READ_MS / 1e3, WRITE_MS / 1e3)
    if not _near(float(few), 50.0):
        return not_yet(
            f"right for four kinds, but 3 retrieves and 1 update take 80 ms together, so 50 "
            f"calls/s, and you say {float(few):.4g}: a kind that is not named was not sent."
        )
    return passed(
        "X = 1/W, and W weighs each delay with the share of the calls that had it. "
        "Times are what adds up when one call waits for the other; rates do not."
    )


_LIKELY_RATES = {
    20.0: "that is the rate if every call were the slowest one: the reads are faster.",
    25.0: "that holds for a quarter of each kind: count what `sent` says was really sent.",
    40.0: "you average the rates, 100 and three times 20: add up the times instead.",
    36.0: "you weigh the rates by their shares: a second filled with slow calls holds fewer "
    "calls, so weigh the times.",
    1 / 0.030: "that takes as many reads as writes: three of the four kinds are writes.",
    0.042: "that is W, seconds for one call: how many of those fit into a second?",
}


def _weighted_rates(sent: Mapping[str, int], read_s: float, write_s: float) -> float:
    reads = sent.get("retrieve", 0) / sum(sent.values())
    return reads / read_s + (1 - reads) / write_s


MIX_TO_RATE = Exercise(
    id="01.mix_to_rate",
    title="From what was sent to calls per second",
    statement=(
        "Write `calls_per_s(sent, read_s, write_s)`: the throughput of a client with one call in "
        "flight. `sent` counts the calls of each kind, such as `{'create': 16, 'retrieve': 8}`; "
        "a retrieve takes `read_s` seconds, any other kind `write_s`."
    ),
    hints=(
        "Lay all the calls end to end. How long is the row, and how many calls are in it?",
        "Count the reads: `sent.get('retrieve', 0)`. All the others are writes.",
        "W = (reads · read_s + writes · write_s) / (reads + writes), and X = 1/W.",
    ),
    reference=calls_per_s,
    wrong=(
        WrongAnswer(
            lambda sent, read_s, write_s: 1 / max(read_s, write_s), "every call were the slowest"
        ),
        WrongAnswer(
            lambda sent, read_s, write_s: 4 / (read_s + 3 * write_s), "a quarter of each kind"
        ),
        WrongAnswer(
            lambda sent, read_s, write_s: (1 / read_s + 3 / write_s) / 4, "average the rates"
        ),
        WrongAnswer(_weighted_rates, "weigh the rates"),
        WrongAnswer(lambda *given: 1 / calls_per_s(*given), "that is W"),
        WrongAnswer(
            lambda sent, read_s, write_s: 2 / (read_s + write_s), "as many reads as writes"
        ),
    ),
    judge=_judge_calls_per_s,
)

# ---- a client of one's own -----------------------------------------------------------------

# Five times as fast as in the lesson. Locks are per key, so that overlapping really is faster.
READ_S, WRITE_S = 0.002, 0.010
KEYS = tuple(f"key {number}".encode() for number in range(1, 9))
MISSING = (KEYS[2], KEYS[5])

Keys = Sequence[bytes]
Answered = tuple[float, int]


def reads_then_writes(
    client: Client, keys: Sequence[bytes], read_s: float, write_s: float
) -> Answered:
    """Predict the time, then read every key and after that write every key, one at a time."""
    predicted_s = len(keys) * (read_s + write_s)
    operations = [retrieve(key) for key in keys] + [update(key, b"new") for key in keys]
    answers = [client.call(operation) for operation in operations]
    return predicted_s, sum(answer.status == "OK" for answer in answers)


class _Called(BaseException):
    """The answer has come to its first call; passes through its `except Exception`."""


class _NobodyThere:
    def __getattr__(self, verb: str) -> Any:
        raise _Called


def _judge_reads_then_writes(answer: Any) -> Verdict:
    with suppress(_Called, BaseExceptionGroup):  # a stub ends here and waits for no server
        answer(_NobodyThere(), list(KEYS), READ_S, WRITE_S)
    returned, run = _made_by(answer)
    wrong = _wrong_with_the_calls(run) or _wrong_with_the_numbers(returned, run)
    if wrong:
        return not_yet(wrong)
    predicted_s, ok = returned
    return passed(
        f"{ok} of {len(run.calls)} calls were answered OK, one at a time; you predicted "
        f"{_ms(predicted_s)}, and it took {_ms(run.window_s)}: the round trips come on top."
    )


def _made_by(answer: Callable[..., Any]) -> tuple[Any, Run]:
    """What the answer returned, and the run of the calls it made against a real server."""
    returned: list[Any] = []

    def prepare(client: Client, schedule: Schedule, in_flight: int) -> None:
        for key in KEYS:
            if key not in MISSING:
                client.call(create(key, b"old"))

    def attempt(client: Client, schedule: Schedule, in_flight: int) -> None:
        try:
            returned.append(answer(client, list(KEYS), READ_S, WRITE_S))
        finally:
            client.wait_until_idle()  # calls that were started and left are counted as well

    with serving(read_delay_s=READ_S, write_delay_s=WRITE_S, locking="per_key") as server:
        load.run(prepare, server, workload.crud(), calls=1, deadline_s=5.0)
        run = load.run(attempt, server, workload.crud(), calls=1, deadline_s=5.0)
    return returned[0], run


def _wrong_with_the_calls(run: Run) -> str:
    calls, count = run.calls, len(KEYS)
    kinds = [str(kind) for kind in calls["operation"]]
    if not kinds:
        return "no call reached the server: make each with `client.call(...)`."
    early = calls["sent_s"].to_numpy()[1:] < calls["done_s"].cummax().to_numpy()[:-1]
    if early.any():
        return (
            f"{int(early.sum())} of your {len(kinds)} calls were sent before the one ahead of them "
            f"was answered. It is faster, {_ms(run.window_s)}, but it is no longer one at a time: "
            "wait for each answer."
        )
    reads, writes = kinds.count("retrieve"), kinds.count("update")
    if reads < count or writes < count:
        return (
            f"{count} keys need {count} retrieves and {count} updates, but the server got {reads} "
            f"and {writes}. Two of the keys are not there: NOT_FOUND is an answer too, so go on "
            "with the next call."
        )
    if kinds != ["retrieve"] * count + ["update"] * count:
        return (
            f"each key once read, then each key once written, is {2 * count} calls: first all the "
            f"retrieves, then all the updates. You sent: {', '.join(kinds)}."
        )
    return ""


def _wrong_with_the_numbers(returned: Any, run: Run) -> str:
    try:
        predicted_s, ok = map(float, returned)
    except (TypeError, ValueError):
        return f"return two numbers, `predicted_s, ok`, got {returned!r}."
    found = run.outcomes().get("OK", 0)
    if ok != found:
        if ok == len(run.calls):
            return (
                f"you return {ok:g} as answered OK, which is every call you tried: "
                f"{len(run.calls) - found} of them ended NOT_FOUND. Look at `answer.status`."
            )
        if predicted_s == found:
            return "the two numbers are the other way round: first the prediction, then the count."
        return f"{found} calls were answered OK, and you return {ok:g}."
    return _wrong_with_the_prediction(predicted_s, run)


def _wrong_with_the_prediction(predicted_s: float, run: Run) -> str:
    count, exact_s = len(KEYS), len(KEYS) * (READ_S + WRITE_S)
    if 0.95 * exact_s <= predicted_s <= 1.35 * exact_s:  # who adds a round trip is right too
        return ""
    if _near(predicted_s, 2 * count * max(READ_S, WRITE_S)):
        return (
            f"you predict {_ms(predicted_s)} as if every call were the worst case; it took "
            f"{_ms(run.window_s)}. Half of the calls are reads, and need {_ms(READ_S)} each."
        )
    if _near(predicted_s, (count - len(MISSING)) * (READ_S + WRITE_S)):
        return (
            "your prediction leaves out the keys that are not there: the server looks for them on "
            "its disk all the same."
        )
    return (
        f"you predict {_ms(predicted_s)}, and it took {_ms(run.window_s)}: {count} calls of "
        f"{_ms(READ_S)} and {count} of {_ms(WRITE_S)}, laid end to end."
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.4g} ms"


def _near(found: float, expected: float) -> bool:
    return math.isclose(found, expected, rel_tol=1e-6)


# Known-wrong answers, each as a learner would write it.


def _overlapping(client: Client, keys: Keys, read_s: float, write_s: float) -> Answered:
    operations = [retrieve(key) for key in keys] + [update(key, b"new") for key in keys]
    with ThreadPoolExecutor(len(operations)) as pool:
        answers = list(pool.map(client.call, operations))
    return len(keys) * (read_s + write_s), sum(answer.status == "OK" for answer in answers)


def _skipping_what_failed(client: Client, keys: Keys, read_s: float, write_s: float) -> Answered:
    there = [key for key in keys if client.call(retrieve(key)).status == "OK"]
    ok = [client.call(update(key, b"new")).status for key in there].count("OK")
    return len(keys) * (read_s + write_s), len(there) + ok


def _counting_attempts(client: Client, keys: Keys, read_s: float, write_s: float) -> Answered:
    predicted_s, _ = reads_then_writes(client, keys, read_s, write_s)
    return predicted_s, 2 * len(keys)


def _predicting_the_worst(client: Client, keys: Keys, read_s: float, write_s: float) -> Answered:
    _, ok = reads_then_writes(client, keys, read_s, write_s)
    return 2 * len(keys) * write_s, ok


def _key_by_key(client: Client, keys: Keys, read_s: float, write_s: float) -> Answered:
    ok = 0
    for key in keys:
        for operation in (retrieve(key), update(key, b"new")):
            ok += client.call(operation).status == "OK"
    return len(keys) * (read_s + write_s), ok


READS_THEN_WRITES = Exercise(
    id="01.reads_then_writes",
    title="A client of your own",
    statement=(
        "Write `reads_then_writes(client, keys, read_s, write_s)`. First predict the seconds it "
        "will take. Then retrieve every key, and after that update every key, one call at a time: "
        "`client.call(retrieve(key))` returns an answer with a `status`. Some keys are not there. "
        "Return `predicted_s, ok`: your prediction, and how many calls were answered OK."
    ),
    hints=(
        "`client.call` waits. Two loops over `keys` are already one call at a time.",
        "NOT_FOUND takes as long as any other answer and is not OK: `ok += answer.status == 'OK'`.",
        "Every key is read once and written once: n of `read_s` and n of `write_s`, end to end.",
    ),
    reference=reads_then_writes,
    wrong=(
        WrongAnswer(_overlapping, "no longer one at a time: wait for each"),
        WrongAnswer(_skipping_what_failed, "NOT_FOUND is an answer too"),
        WrongAnswer(_counting_attempts, "every call you tried"),
        WrongAnswer(_predicting_the_worst, "the worst case"),
        WrongAnswer(_key_by_key, "first all the retrieves"),
    ),
    judge=_judge_reads_then_writes,
)
