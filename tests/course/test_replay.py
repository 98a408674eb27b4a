"""The replay of a run: its counts are those of the records, in Python and on the page."""

import asyncio
import dataclasses
import random
import re

import numpy as np
import pytest
from made_runs import run_of

from kvstore.client import load, strategies, workload
from kvstore.course import predict, running
from kvstore.course.my_code import course_version
from kvstore.course.replays import MOST_CALLS, replay
from kvstore.measure import ServerReport
from kvstore.measure.attempts import attempts_of
from kvstore.protocol import StationTimes
from kvstore.server import serving, serving_replicas

ONE_LOCK = {"settings": {"locking": "global", "threads": 8, "use_asyncio": False}}


def of(calls, **facts):
    return dataclasses.replace(run_of(calls, in_flight=2), **facts)


@pytest.mark.parametrize(
    ("locking", "at_s", "room"),
    [
        ("global", 0.05, "network"),
        ("global", 0.35, "lock"),  # 0.1 of network, 0.1 of pool, then 0.2 of lock
        ("global", 0.45, "disk"),
        ("per_key", 0.35, "disk"),  # the disk comes before the lock of a key
        ("per_key", 0.65, "lock"),
        ("global", 0.75, "server code"),
    ],
)
def test_a_call_is_in_the_station_that_its_times_name(locking, at_s, room):
    times = StationTimes(pool_s=0.1, lock_s=0.2, disk_s=0.3, rest_s=0.1)
    run = of(
        [(0.0, 0.9 + 0.1, "retrieve", "OK", times)],
        server=ServerReport.of({"settings": {"locking": locking, "threads": 8}}),
    )
    # 1.0 s in all, 0.7 s in the server: the two ways through the network take 0.15 s each
    counts = replay(run).scenes[0].counts(at_s + 0.05)

    assert {name for name, count in counts.items() if count} == {room}


def test_a_server_in_front_of_another_has_a_back_end_and_no_lock():
    times = StationTimes(pool_s=0.1, lock_s=0.0, disk_s=0.4, rest_s=0.0)
    facts = {"back_end": "127.0.0.1:1", "threads": 200, "use_asyncio": False}
    scene = replay(
        of([(0.0, 0.5, "retrieve", "OK", times)], server=ServerReport.of({"settings": facts}))
    ).scenes[0]

    assert {"network": 0, "thread pool": 0, "back end": 1, "server code": 0} == scene.counts(0.3)
    assert 200 == next(room.workers for room in scene.rooms if room.label == "back end")


def test_where_a_call_without_times_was_is_not_known():
    times = StationTimes(pool_s=0.0, lock_s=0.0, disk_s=0.8, rest_s=0.0)
    calls = [(0.0, 1.0, "create", "OK", times), (0.0, 1.0, "create", "DEADLINE_EXCEEDED")]
    found = (
        replay(of(calls, server=ServerReport.of({"settings": {"locking": "per_key"}})))
        .scenes[0]
        .counts(0.5)
    )

    assert {"disk": 1, "not known": 1} == {name: count for name, count in found.items() if count}


def test_a_pool_takes_calls_in_their_order_where_no_times_are_reported():
    facts = {"back_end": "127.0.0.1:1", "threads": 2, "use_asyncio": False}
    calls = [(0.0, 1.0, "create"), (0.1, 1.1, "create"), (0.2, 2.0, "create"), (1.5, 2.2, "create")]
    scene = replay(of(calls, server=ServerReport.of({"settings": facts}))).scenes[0]

    found = [tuple(scene.counts(at_s).values()) for at_s in (0.5, 1.05, 1.2, 1.6)]

    assert [(1, 2), (0, 2), (0, 1), (0, 2)] == found


def test_attempts_of_a_call_are_one_dot_and_the_replay_says_so():
    run = of(
        [(0.0, 1.0, "retrieve")] * 3, server=ServerReport.of({"operations": {"retrieve/OK": 12}})
    )

    assert "12 attempts of 3 calls" in repr(replay(run))


def noted(calls, attempts, zero_s=1000.0):
    """A run whose server noted (sent_s, before, arrived_s, ended_s), by a clock of its own."""
    rows = [[sent, before, zero_s + came, zero_s + left] for sent, before, came, left in attempts]
    return of(calls, server=ServerReport.of({"attempts": rows}))


def test_a_call_is_at_each_of_its_attempts_and_pauses_between_them():
    run = noted(
        [(0.0, 1.0, "retrieve"), (0.1, 0.5, "retrieve", "UNAVAILABLE")],
        [(0.0, 0, 0.02, 0.2), (0.1, 0, 0.12, 0.48), (0.0, 1, 0.4, 0.6), (0.0, 2, 0.8, 0.98)],
    )
    scene = replay(run).scenes[0]

    at = {at_s: scene.counts(at_s) for at_s in (0.01, 0.15, 0.3, 0.5, 0.7, 0.9, 0.99)}

    assert {"network": 1, "server": 0, "between attempts": 0} == at[0.01]
    assert {"network": 0, "server": 2, "between attempts": 0} == at[0.15]
    assert {"network": 0, "server": 1, "between attempts": 1} == at[0.3]
    assert {"network": 0, "server": 1, "between attempts": 0} == at[0.5]
    assert {"network": 0, "server": 0, "between attempts": 1} == at[0.7]
    assert {"network": 0, "server": 1, "between attempts": 0} == at[0.9]
    assert {"network": 1, "server": 0, "between attempts": 0} == at[0.99]
    assert "4 attempts of 2 calls" in repr(replay(run))


def test_a_call_that_was_given_up_in_its_pause_is_not_on_its_way_back():
    run = noted(
        [(0.0, 1.0, "retrieve", "DEADLINE_EXCEEDED"), (0.0, 2.0, "retrieve")],
        [(0.0, 0, 0.1, 0.5), (0.0, 1, 1.5, 1.9)],
    )
    run = dataclasses.replace(run, records=run.records.copy())
    run.records["sent_s"] = [0.0, 0.05]
    run.server.attempts[1][0] = 0.05

    found = replay(run).scenes[0].counts(0.8)

    assert {"network": 1, "between attempts": 1} == {k: n for k, n in found.items() if n}


def test_copies_of_a_read_are_dots_of_one_call():
    run = of(
        [(0.0, 0.4, "retrieve"), (0.1, 0.4, "retrieve", "CANCELLED"), (0.2, 0.3, "retrieve")],
        server=ServerReport.of({"identity": "a,b"}),
        settings={"hedged": True},
    )
    records = run.records.copy()  # in the order of their ends
    records["due_s"] = [0.2, 0.0, 0.0]
    records["connection"] = [1, 0, 1]
    scene = replay(dataclasses.replace(run, records=records)).scenes[0]

    assert [0, 0, 1] == scene.call.tolist()  # in the order of sending
    assert [0, 1, 0] == scene.copy.tolist()
    assert {"server 0": 1, "server 1": 2} == scene.counts(0.25)


def test_the_learners_number_is_the_line(own_progress):
    run = of([(0.0, 1.0, "retrieve")])
    assert replay(run, predicted="03.global_lock").scenes[0].predicted is None
    predict("03.global_lock", 40)

    assert ("you said", 40.0) == replay(run, predicted="03.global_lock").scenes[0].predicted


def test_a_long_run_is_cut_and_says_so():
    calls = [(n * 1e-3, n * 1e-3 + 0.01, "retrieve") for n in range(MOST_CALLS + 500)]
    made = replay(of(calls))

    assert MOST_CALLS == len(made.scenes[0].edges)
    assert f"{MOST_CALLS:,} of {len(calls):,}" in repr(made)
    assert len(made.html) < 1_000_000
    later = replay(of(calls), from_s=5.0).scenes[0]
    assert later.span_s[0] >= 4.9


def test_what_cannot_be_shown_is_refused():
    run = of([(0.0, 1.0, "create")])
    with pytest.raises(ValueError, match="no calls from 7 s"):
        replay(run, from_s=7)
    with pytest.raises(ValueError, match="2 values"):
        replay({"one": run, "two": run}, predicted=[1.0])


def test_the_page_needs_nothing_from_elsewhere():
    """VS Code, an exported page and a slide show it without a network, a module or a kernel."""
    html = replay(of([(0.0, 1.0, "create")])).html

    assert re.findall(r"https?:|\bimport\b|\brequire\b|\bfetch\(|\bJupyter\b|\bsrc=", html) == []


def test_text_of_a_run_cannot_end_its_script():
    made = replay({"</script><b>": of([(0.0, 1.0, "create")])})

    assert 1 == made.html.count("</script>")


@pytest.fixture(scope="module")
def measured():
    made = {}
    for locking in "global", "per_key":
        with serving(
            locking=locking, station_times=True, read_delay_s=0.002, write_delay_s=0.005
        ) as server:
            made[locking] = load.run(
                strategies.bounded, server, workload.crud(seed=3), in_flight=20, calls=300
            )
    with (
        serving(read_delay_s=0.05, locking="per_key", use_asyncio=True) as back,
        serving(threads=5, back_end=back.address, station_times=True) as front,
    ):
        made["front"] = load.run(strategies.tasks, front, workload.reads(), in_flight=9, calls=90)
    policy = {
        "maxAttempts": 4,
        "initialBackoff": "0.02s",
        "maxBackoff": "0.1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    with (
        serving(threads=2, read_delay_s=0.02, write_delay_s=0, locking="per_key") as back,
        serving(
            use_asyncio=True, back_end=back.address, back_end_timeout_s=0.1, note_attempts=True
        ) as front,
    ):
        made["retries"] = load.run(
            strategies.futures,
            front,
            workload.reads(),
            rate_per_s=150,
            calls=100,
            service_config={"methodConfig": [{"name": [{}], "retryPolicy": policy}]},
        )
    with serving_replicas([{"read_delay_s": 0.005}] * 3) as servers:
        made["servers"] = load.run(
            strategies.tasks, servers, workload.crud(seed=3), in_flight=20, calls=200
        )
    return made


@pytest.mark.slow
def test_every_call_in_flight_is_in_one_room(measured):
    for scene in replay(measured).scenes:
        calls = scene.run.records
        for at_s in np.linspace(*scene.span_s, 40)[1:-1]:
            open_now = (calls["sent_s"].astype("f4") <= at_s) & (
                calls["done_s"].astype("f4") > at_s
            )
            assert int(open_now.sum()) == sum(scene.counts(at_s).values())


@pytest.mark.slow
def test_the_replay_has_each_attempt_that_the_server_counted(measured):
    run = measured["retries"]
    (scene,) = replay(run).scenes

    assert scene.attempts.sum() == run.server.answered > 1.2 * run.issued
    ok = scene.records["status"] == 0
    assert ok.any()  # its last attempt is the one that was answered, and ends before the call
    last = scene.edges[np.arange(len(ok)), 2 * scene.attempts.astype(int)]
    assert (last[ok] <= scene.records["done_s"][ok].astype("f4")).all()
    shortest_s = 0.02 - attempts_of(run).error_s  # what the back end needs, by clocks that differ
    assert (last[ok] > scene.records["sent_s"][ok] + shortest_s).all()


@pytest.mark.slow
def test_the_copies_of_hedged_reads_in_a_real_run_are_recorded():
    hedged = course_version("clients.hedged")

    async def hedging(stubs, requests):
        async with asyncio.TaskGroup() as group:
            async for request in requests:
                group.create_task(hedged(*random.sample(stubs, 2), request, 0.03))

    quick = {"locking": "per_key", "threads": 1, "read_delay_s": 0.02}
    made = running.run(hedging, [quick, quick], rate=60, seconds=None, calls=60)
    (scene,) = replay(made).scenes

    twice = np.bincount(scene.call) == 2
    assert twice.any()
    assert not twice.all()
    for call in np.flatnonzero(twice):
        a, b = np.flatnonzero(scene.call == call)
        assert scene.server[a] != scene.server[b]
        assert scene.edges[b, 0] - scene.edges[a, 0] > 0.029  # sent when the first one was late


@pytest.mark.slow
def test_the_page_shows_the_counts_of_the_records(measured, browser, tmp_path):
    made = replay(measured, predicted=[100.0, None, None, None, 5.0])
    page_file = tmp_path / "page.html"
    page_file.write_text(f"<!doctype html><meta charset=utf-8>{made.html}", "utf-8")
    times = [float(at_s) for at_s in np.linspace(0, made.scenes[0].span_s[1], 5)[1:4]]
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(page_file.as_uri())
    for at_s in times:
        rooms = page.evaluate("t => document.querySelector('.rpc-replay').replay.counts(t)", at_s)
        expected = [list(scene.counts(at_s).values()) for scene in made.scenes]
        assert expected == [room[1:] for room in rooms]
    slider = page.get_by_label("time", exact=True)
    slider.fill("5000")  # the middle
    words = page.locator("[data-replay=counts]").inner_text()
    clock = page.locator("[data-replay=clock]").inner_text()
    at_s = page.evaluate("document.querySelector('.rpc-replay').replay.time()")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="next event").click()
    moved = page.evaluate("document.querySelector('.rpc-replay').replay.time()")
    page.evaluate("t => document.querySelector('.rpc-replay').replay.goTo(t)", times[0])
    page.locator("canvas").first.focus()
    page.keyboard.press("ArrowDown")
    chosen = page.locator("[data-replay=counts]").inner_text()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    other = page.locator("[data-replay=counts]").inner_text()
    page.get_by_role("button", name="play").click()
    page.get_by_role("button", name="pause").wait_for()
    while_it_plays = page.locator("[data-replay=counts]").inner_text()
    assert not errors
    assert while_it_plays == ""  # words of another time would contradict the picture
    assert f"t = {at_s:.3f} s" == clock
    until_s = max(scene.span_s[1] for scene in made.scenes)
    from_s = min(scene.span_s[0] for scene in made.scenes)
    assert at_s == pytest.approx((from_s + until_s) / 2, abs=0.001)
    assert "in flight" in words
    for call in (chosen, other):  # by the keys alone
        assert "sent at" in call
        assert "ended with" in call
    assert chosen != other
    assert moved > at_s


DRAWN = """() => {
  const dots = [], texts = [], context = CanvasRenderingContext2D.prototype;
  const {arc, fillText} = context;
  context.arc = function (x, y, ...more) { dots.push(y + more[0]); arc.call(this, x, y, ...more); };
  context.fillText = function (text, x, y, ...more) {
    texts.push([text, y]); fillText.call(this, text, x, y, ...more);
  };
  document.querySelector('.rpc-replay').replay.goTo(0.5);
  return [Math.max(...dots), texts];
}"""


@pytest.mark.slow
def test_the_number_of_calls_that_a_room_cannot_show_is_below_its_dots(browser, tmp_path):
    waits = StationTimes(pool_s=0.9, lock_s=0.0, disk_s=0.05, rest_s=0.0)
    many = of([(0.0, 1.0, "retrieve", "OK", waits)] * 3_000, server=ServerReport.of(ONE_LOCK))
    page_file = tmp_path / "page.html"
    page_file.write_text(f"<!doctype html><meta charset=utf-8>{replay(many).html}", "utf-8")
    page = browser.new_page(viewport={"width": 900, "height": 800})
    page.goto(page_file.as_uri())

    lowest_dot, texts = page.evaluate(DRAWN)

    (below,) = (y for text, y in texts if re.fullmatch(r"and \d+ more", text))
    assert lowest_dot < below - 11, "the text is 11 pixels high"
