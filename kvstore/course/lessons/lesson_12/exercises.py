"""Lesson 12: a channel that spreads its calls, how many servers are needed, and moving slots."""

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final

import grpc
from hypothesis import strategies as st

from kvstore.course.exercises import Exercise, Verdict, Wrong, expect, not_yet, passed
from kvstore.course.exercises.grading import Drawn, drawn_inputs
from kvstore.course.exercises.puppet import counting

# 12.spread ----------------------------------------------------------------------------------------

PATIENCE_S: Final = 5.0
"""How long the check waits until calls reach every server."""
CALLS_EACH: Final = 12


def spread(addresses: Sequence[str]) -> grpc.Channel:
    """Return one channel that sends its calls to all addresses, in rotation."""
    config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
    options = [("grpc.service_config", json.dumps(config))]
    return grpc.insecure_channel("ipv4:" + ",".join(addresses), options=options)


def _judge_spread(answer: Any) -> Verdict:
    for count in (2, 4):
        with ExitStack() as stack:
            servers = [stack.enter_context(counting()) for _ in range(count)]
            channel = answer([address for address, _ in servers])
            try:
                problem = _spread_problem(channel, [calls for _, calls in servers])
            finally:
                if isinstance(channel, grpc.Channel):
                    channel.close()
        if problem:
            return not_yet(f"`spread(addresses)` with {count} addresses: {problem}")
    return passed(
        "one channel, and each of 2 and of 4 servers answered its share of the calls. The channel"
        " has a connection to each address."
    )


def _spread_problem(channel: Any, counts: Sequence[Counter[str]]) -> str:
    """Return what is wrong with the channel, or ""."""
    if isinstance(channel, list | tuple):
        return "return one channel, not several: gRPC chooses the server for each call."
    if not isinstance(channel, grpc.Channel):
        return f"return an open `grpc.Channel`, got {type(channel).__name__}."
    call = channel.unary_unary("/any/Method")
    give_up_s = time.perf_counter() + PATIENCE_S
    try:
        # The connections are established one after the other.
        while min(each.total() for each in counts) < 2 and time.perf_counter() < give_up_s:
            call(b"", timeout=PATIENCE_S, wait_for_ready=True)
            if sum(each.total() for each in counts) > 50 * len(counts):
                break
        before = [each.total() for each in counts]
        for _ in range(CALLS_EACH * len(counts)):
            call(b"", timeout=PATIENCE_S, wait_for_ready=True)
    except ValueError:
        return "the channel is closed already. Return it open; the check closes it."
    except grpc.RpcError as error:
        return (
            f"a call failed with {error.code().name} ({error.details()}): are the addresses joined"
            " by commas, with `ipv4:` once in front, and is the service config valid JSON?"
        )
    return _share_problem([each.total() - was for each, was in zip(counts, before, strict=True)])


def _share_problem(answered: Sequence[int]) -> str:
    reached = sum(count > 0 for count in answered)
    if not reached:
        return "the calls reached another server. Use the addresses as the target of the channel."
    if reached == 1:
        return (
            f"one server answered all {sum(answered)} calls. The channel may know all addresses;"
            " its policy is still `pick_first`, which takes one and keeps it. Choose another"
            " policy in the service config."
        )
    if min(answered) < CALLS_EACH / 3:
        return f"the servers answered {list(answered)} calls: each should get an even share."
    return ""


SPREAD = Exercise(
    id="12.spread",
    title="One channel to several servers",
    hints=(
        'The target `"ipv4:127.0.0.1:1001,127.0.0.1:1002"` names two addresses: `"ipv4:" + '
        '",".join(addresses)`.',
        'The policy stands in the service config: `{"loadBalancingConfig": [{"round_robin": {}}]}`.'
        " `json.dumps` makes a text of it.",
        'The text is an option of the channel: `options=[("grpc.service_config", text)]`.',
    ),
    reference=spread,
    judge=_judge_spread,
    may_pause=True,
    timeout_s=90.0,
)


# 12.servers_needed --------------------------------------------------------------------------------


def servers_needed(target_per_s: float, service_s: float, hottest_share: float) -> float:
    """Return the fewest servers whose busiest one can serve its share of the target."""
    busiest_share = 1 / (target_per_s * service_s)  # what one server can take
    if busiest_share >= 1:
        return 1
    if busiest_share <= hottest_share:
        return math.inf
    return math.ceil(round((1 - hottest_share) / (busiest_share - hottest_share), 9))


def _clear(drawn: dict[str, Any]) -> bool:
    """Whether rounding does not decide: no number of servers reaches the target exactly."""
    share = 1 / (drawn["target_per_s"] * drawn["service_s"])
    room = share - drawn["hottest_share"]
    if abs(share - 1) < 1e-6 or abs(room) < 1e-6:
        return False
    servers = (1 - drawn["hottest_share"]) / room
    return bool(room < 0 or share > 1 or abs(servers - round(servers)) > 1e-6)


WHOLE = [(128.0, 0.0), (256.0, 0.0), (128.0, 0.25), (256.0, 0.125), (512.0, 0.0625)]
"""Targets and shares of the hottest key that a whole number of servers reaches exactly."""
MANY = [(199.0, 0.005), (995.0, 0.001), (3980.0, 0.00025)]
"""The same for thousands of servers, where a server takes 1 s for a call."""
NEEDED_INPUTS = st.fixed_dictionaries(
    {
        "target_per_s": st.integers(1, 5_000).map(float),
        "service_s": st.integers(1, 50).map(lambda n: n / 1000),
        "hottest_share": st.integers(0, 60).map(lambda n: n / 200),
    }
).filter(_clear) | st.sampled_from(
    [
        {"target_per_s": target_per_s, "service_s": service_s, "hottest_share": share}
        for rows, service_s in ((WHOLE, 1 / 64), (MANY, 1.0))
        for target_per_s, share in rows
    ]
)


def _unless_hot(servers: Callable[[float, float, float], float]) -> Callable[..., float]:
    def answer(target_per_s: float, service_s: float, hottest_share: float) -> float:
        if target_per_s * service_s * hottest_share >= 1:
            return math.inf
        return servers(target_per_s, service_s, hottest_share)

    return answer


SERVERS_NEEDED = Exercise(
    id="12.servers_needed",
    title="How many servers?",
    hints=(
        "The busiest of s servers gets the share q + (1 - q)/s of the calls, and can serve 1/S.",
        "So (q + (1 - q)/s)·X·S must not be above 1. Solve for s.",
        "s = (1 - q) / (1/(X·S) - q), rounded up, at least 1. If 1/(X·S) is not above q, the answer"
        " is `math.inf`, unless one server is enough.",
    ),
    reference=servers_needed,
    judge=Drawn(
        servers_needed,
        NEEDED_INPUTS,
        mistakes=(
            (
                "You take all keys for equally hot: no number of servers splits one key.",
                lambda target_per_s, service_s, hottest_share: max(
                    1, math.ceil(target_per_s * service_s)
                ),
            ),
            (
                "You look at the hot key alone. Its server also has 1/s of all other keys.",
                _unless_hot(lambda x, s, q: max(1, math.ceil(x * s))),
            ),
            (
                "Where q·X·S is above 1, no number of servers is enough: return `math.inf`.",
                lambda target_per_s, service_s, hottest_share: (
                    max(
                        1,
                        math.ceil(
                            (1 - hottest_share) / (1 / (target_per_s * service_s) - hottest_share)
                        ),
                    )
                    if target_per_s * service_s * hottest_share != 1
                    else math.inf
                ),
            ),
            (
                "One server too few: round up, and at least one is needed.",
                lambda target_per_s, service_s, hottest_share: (
                    servers_needed(target_per_s, service_s, hottest_share) - 1
                    if math.isfinite(servers_needed(target_per_s, service_s, hottest_share))
                    else math.inf
                ),
            ),
            (
                "One server too many: round up, and no more.",
                lambda target_per_s, service_s, hottest_share: (
                    servers_needed(target_per_s, service_s, hottest_share) + 1
                ),
            ),
        ),
        right="(q + (1 - q)/s)·X·S ≤ 1, solved for s. No s is enough for more than 1/q times the "
        "throughput of one server.",
    ),
    timeout_s=60.0,
)


# 12.add_server (further/12_slots) -----------------------------------------------------------------


def add_server(slots: Sequence[int], servers: int) -> list[int]:
    """Return the slots after one more server has taken its share, each from the fullest server."""
    after = list(slots)
    for _ in range(len(slots) // (servers + 1)):
        counts = [after.count(server) for server in range(servers)]
        after[after.index(counts.index(max(counts)))] = servers
    return after


def _drawn_slots() -> Any:
    servers = st.integers(1, 8) | st.just(30)
    return st.tuples(servers, st.integers(1, 10), st.randoms(use_true_random=False)).map(
        lambda drawn: _dealt(*drawn)
    )


def _dealt(servers: int, rounds: int, order: Any) -> tuple[list[int], int]:
    slots = [number % servers for number in range(servers * rounds + order.randrange(servers))]
    order.shuffle(slots)
    return slots, servers


def _judge_add_server(answer: Any) -> Verdict:
    drawn = sorted(drawn_inputs(_drawn_slots(), 120), key=lambda each: len(each[0]))
    for slots, servers in drawn:
        given = list(slots)
        try:
            _look_at_slots(slots, servers, answer(given, servers))
            expect(given == slots, f"it changed its own argument to {given}: begin with a copy.")
        except Wrong as wrong:
            return not_yet(f"With slots = {slots} and servers = {servers}: {wrong}")
    return passed(
        f"{len(drawn)} drawn tables: every server has its share, and no slot moved without need."
        " Only 1/(s + 1) of the keys move."
    )


def _look_at_slots(slots: Sequence[int], servers: int, after: Any) -> None:
    expect(
        isinstance(after, list) and len(after) == len(slots),
        f"return a list of {len(slots)} servers, one for each slot, got {after!r:.60}.",
    )
    strange = [each for each in after if each not in range(servers + 1)]
    expect(not strange, f"the servers are numbered from 0 to {servers}, got {strange[:1]}.")
    counts = [after.count(server) for server in range(servers + 1)]
    expect(
        max(counts) - min(counts) <= 1,
        f"the servers then have {counts} slots: they should differ by one at most.",
    )
    moves = [(n, a, b) for n, (a, b) in enumerate(zip(slots, after, strict=True)) if a != b]
    for number, was, now in moves:
        expect(
            now == servers,
            f"slot {number} moved from server {was} to {now}: slots should move to the new server"
            " only.",
        )
    enough = len(slots) // (servers + 1)
    expect(len(moves) <= enough, f"{len(moves)} slots moved, and {enough} are enough.")


ADD_SERVER = Exercise(
    id="12.add_server",
    title="A new server, and few slots that move",
    hints=(
        "How many slots does each server have afterwards? `len(slots) // (servers + 1)`, or one"
        " more.",
        "Only slots that go to the new server have to move. The old servers give, and get none.",
        "Take one slot at a time from the server that has most, until the new one has"
        " `len(slots) // (servers + 1)`.",
    ),
    reference=add_server,
    judge=_judge_add_server,
    timeout_s=60.0,
)
