"""stories/server_race.py: a write is lost every time, and never with compare and replace."""

import pytest

from kvstore.client.workload import create, delete, update
from kvstore.course.stories.server_race import BEFORE, Race, races, table
from kvstore.server import WRITINGS

LOSE = ["create, create", "delete, update"]
SLOW = {"write_delay_s": 0.3, "read_delay_s": 0, "locking": "per_key"}


@pytest.mark.slow
@pytest.mark.parametrize("writing", WRITINGS)
def test_who_looks_and_then_writes_loses_every_time_and_the_others_never(own_server, writing):
    seen = races(own_server(**SLOW, writing=writing))

    lost = [name for name, race in seen.items() if race.lost]
    assert lost == (LOSE if writing == "read_then_write" else [])
    if lost:
        assert {race.answered for race in seen.values()} == {("OK", "OK")}  # nobody was told


@pytest.mark.slow
def test_a_lock_held_through_the_disk_lets_nobody_come_between(own_server):
    seen = races(own_server(**SLOW | {"locking": "per_key_held"}, writing="read_then_write"))

    assert not any(race.lost for race in seen.values())


@pytest.mark.parametrize(
    ("before", "asked", "answered", "stored", "orders"),
    [
        (BEFORE, (update, update), ("OK", "OK"), b"B", ["AB"]),
        (BEFORE, (update, update), ("OK", "OK"), b"A", ["BA"]),
        (BEFORE, (update, update), ("OK", "OK"), BEFORE, []),
        (BEFORE, (update, delete), ("OK", "OK"), None, ["AB"]),
        (BEFORE, (update, delete), ("NOT_FOUND", "OK"), None, ["BA"]),
        (BEFORE, (delete, update), ("OK", "OK"), b"B", []),
        (None, (create, create), ("OK", "OK"), b"B", []),
        (None, (create, create), ("OK", "ALREADY_EXISTS"), b"A", ["AB"]),
        (None, (create, create), ("OK", "ALREADY_EXISTS"), b"B", []),
        (None, (delete, delete), ("OK", "OK"), None, ["AB", "BA"]),
    ],
)
def test_a_history_is_in_order_if_some_order_explains_it(before, asked, answered, stored, orders):
    made = tuple(
        make(b"key") if make is delete else make(b"key", value)
        for make, value in zip(asked, (b"A", b"B"), strict=True)
    )
    race = Race(before, made, answered, stored)

    assert orders == race.explained_by
    assert race.lost is (not orders)
    assert (" or ".join(orders) or "NO ORDER") == table({"it": race}).loc["it", "explained by"]


@pytest.mark.slow
def test_a_disk_too_fast_to_come_between_is_refused(quick_server):
    with pytest.raises(RuntimeError, match=r"write_delay_s is 0\.002"):
        races(quick_server)


@pytest.mark.slow
def test_the_same_races_again_are_refused(own_server):
    server = own_server(write_delay_s=0.05)
    races(server)

    with pytest.raises(RuntimeError, match="start another one"):
        races(server)
