"""strategies.py: every strategy through the same tests, against a client that behaves."""

import inspect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes import FakeClient, Shared

from kvstore.client import strategies
from kvstore.client.strategies import STRATEGIES, blocking, futures, in_batches, pipelined

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.__name__)
every_limited_strategy = pytest.mark.parametrize(
    "strategy", [s for s in STRATEGIES if s not in (blocking, futures)], ids=lambda s: s.__name__
)


@pytest.fixture
def fake_client() -> Iterator[FakeClient]:
    with ThreadPoolExecutor(8) as pool:
        yield FakeClient(pool)


@every_strategy
def test_every_strategy_answers_all_and_keeps_the_limit(strategy, fake_client):
    """A strategy may be slow, but it may not lose a call or send one too many."""
    strategy(fake_client, Shared(range(40)), 4)

    assert list(range(40)) == sorted(fake_client.answered)
    assert fake_client.most_open <= (40 if strategy is futures else 4)


@every_limited_strategy
def test_a_strategy_that_may_have_many_in_flight_does(strategy, fake_client):
    strategy(fake_client, Shared(range(40)), 4)

    assert 4 == fake_client.most_open


def test_blocking_has_one_in_flight_whatever_it_is_told(fake_client):
    blocking(fake_client, Shared(range(10)), 4)

    assert 1 == fake_client.most_open


def test_futures_wait_for_nothing(fake_client):
    """It sends far faster than a millisecond each."""
    futures(fake_client, Shared(range(200)))

    assert fake_client.most_open > 8


@every_strategy
def test_a_strategy_returns_when_all_is_answered(strategy, fake_client):
    strategy(fake_client, Shared(range(10)), 2)

    assert 0 == fake_client.open


@every_strategy
def test_with_nothing_to_send_a_strategy_returns(strategy, fake_client):
    strategy(fake_client, Shared([]), 2)

    assert [] == fake_client.answered


@every_strategy
def test_more_slots_than_calls_do_no_harm(strategy, fake_client):
    strategy(fake_client, Shared(range(3)), 50)

    assert [0, 1, 2] == sorted(fake_client.answered)


@every_strategy
def test_an_error_is_raised_where_the_strategy_was_called(strategy, fake_client):
    """Not lost in a thread, nor waited for in vain by the others."""
    fake_client.fail_at = 5
    with pytest.raises((ValueError, ExceptionGroup)) as raised:
        strategy(fake_client, Shared(range(40)), 4)

    error: BaseException = raised.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert "this one cannot be sent" == str(error)


@pytest.mark.parametrize(
    ("requests", "calls", "batch"),
    [([8, 8, 4], 20, 8), ([1, 1, 1], 3, 1), ([3], 3, 8), ([5, 5], 10, 5)],
)
def test_a_batch_is_one_request_of_many_operations(requests, calls, batch, fake_client):
    pipelined(fake_client, Shared(range(calls)), 1, batch=batch)

    assert requests == fake_client.requests
    assert list(range(calls)) == fake_client.answered


@pytest.mark.parametrize("streams", [1, 2, 3, 4])
def test_streams_share_the_requests_in_flight(streams, fake_client):
    pipelined(fake_client, Shared(range(60)), 4, streams=streams)

    assert 4 == fake_client.most_open
    assert 60 == len(fake_client.answered)


def test_the_operations_of_a_batch_keep_their_order():
    assert [[0, 1, 2], [3, 4, 5], [6]] == list(in_batches(Shared(range(7)), 3))


@every_strategy
def test_every_strategy_has_the_same_shape(strategy):
    """So that any of them stands where another stood."""
    parameters = inspect.signature(strategy).parameters

    assert ["client", "schedule", "in_flight"] == list(parameters)[:3]
    assert all(
        parameter.kind is inspect.Parameter.KEYWORD_ONLY
        for name, parameter in list(parameters.items())[3:]
    )


@every_strategy
def test_a_strategy_is_short_enough_to_be_read_in_a_lesson(strategy):
    assert strategy.__doc__
    assert len(inspect.getsource(strategy).splitlines()) <= 25


def test_no_public_function_is_missing_from_the_list():
    public = {
        function
        for name, function in inspect.getmembers(strategies, inspect.isfunction)
        if function.__module__ == strategies.__name__ and function is not in_batches
    }

    assert set(STRATEGIES) == public
