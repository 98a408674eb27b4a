import math
from xml.etree import ElementTree

import pytest

from kvstore.course import draw_stations
from kvstore.model import Station

SVG = "{http://www.w3.org/2000/svg}"
NETWORK, LOCK = Station("network", 0.0, math.inf), Station("a lock <one>", 0.040)
POOL = Station("thread pool", 0.0, 8)


def parsed(*stations, **options):
    return ElementTree.fromstring(draw_stations(stations, **options).svg)


def texts(root):
    return [each.text for each in root.iter(f"{SVG}text")]


def test_a_queueing_station_has_a_queue_and_a_delay_station_has_none(page):
    """A queue is drawn as two rails with bars between them."""

    def symbols(station):
        bare, root = parsed(), parsed(station)
        count = [len(list(each.iter(f"{SVG}circle"))) for each in (root, bare)]
        bars = [sum(" v32" in p.get("d") for p in each.iter(f"{SVG}path")) for each in (root, bare)]
        return count[0] - count[1], bars[0] - bars[1]

    assert symbols(NETWORK) == (3, 0)
    assert symbols(LOCK) == (1, 4)
    assert symbols(POOL) == (2, 4)


def test_the_numbers_of_the_model_stand_below_and_a_bound_does_not(page):
    """The drawing comes before the prediction: it must not answer it."""
    shown = texts(parsed(NETWORK, LOCK, POOL, in_flight=100, semaphore=64))

    assert shown == [
        *("client", "N = 100"),
        *("semaphore", "64 places"),
        *("network", "no queue"),
        *("a lock <one>", "D = 40 ms", "1 at a time"),
        *("thread pool", "8 at a time"),
        "reply",
    ]


def test_title_and_description_say_what_is_drawn(page):
    root = parsed(NETWORK, LOCK, in_flight=100, held={LOCK.name: LOCK.name}, title="Round 1")
    described = {each.get("id"): each.text for each in root if each.get("id")}

    assert root.get("role") == "img"
    assert list(described) == root.get("aria-labelledby").split()
    title, words = described.values()
    assert title == "Round 1"
    assert "the client keeps 100 in flight" in words
    assert "network, where no call waits; then a lock <one>, a queue and one server, 40 ms" in words
    assert "is held" in words
    assert page[-1]["text/plain"] == words


def test_an_open_loop_has_an_arrival_rate_and_no_way_back(page):
    shown = texts(parsed(LOCK, arrivals_per_s=50))

    assert "λ = 50 calls/s" in shown
    assert "reply" not in shown
    assert "N has no limit" in texts(parsed(LOCK, in_flight=math.inf))


def test_what_is_held_must_be_drawn(page):
    with pytest.raises(ValueError, match="held names 'disk', which is none of the stations n"):
        draw_stations([NETWORK], held={"disk": "network"})
