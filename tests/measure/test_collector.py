"""Collections are counted by generation, and belong to a time of the run."""

import gc
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest

from kvstore.client import load, strategies, workload
from kvstore.gc_control import Collections, Moment, watched_collector
from kvstore.measure.recorder import Sample, columns, sample_rows, with_server
from kvstore.server import serving


@pytest.fixture
def still():
    """No garbage collections except those of the test, and no callbacks of other packages.

    Hypothesis has one, in which the interrupt of a test would be lost.
    """
    gc.collect()
    gc.disable()
    others = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = others
    gc.enable()


def test_collections_are_counted_by_generation(still):
    began_s = time.perf_counter()
    with watched_collector() as watch:
        for generation in (0, 0, 0, 1, 2, 2):
            gc.collect(generation)
        counted = watch.now()
    took_s = time.perf_counter() - began_s

    assert (3, 1, 2) == counted[:3]
    assert 0 < counted.pause_s < took_s


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no such timer")
def test_an_interrupt_during_a_collection_is_not_lost(still):
    """It is raised where Python runs next: in the watch, whose errors end nothing."""
    heap = [[] for _ in range(1_000_000)]  # so many that a collection takes longer than the timer
    usual = signal.signal(signal.SIGALRM, signal.default_int_handler)
    hook = sys.unraisablehook
    try:
        with watched_collector() as watch:
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            gc.collect()
            with pytest.raises(KeyboardInterrupt):
                time.sleep(5)
        assert (0, 0, 0) == watch.now()[:3]  # it came in place of the count
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
        del heap
    assert hook is sys.unraisablehook


def test_the_last_moment_is_now_and_the_counts_only_rise(still):
    with watched_collector() as watch:
        for _ in range(5):
            gc.collect(0)
        moments = watch.moments()

    assert 5 == moments[-1].collections.young
    assert len(moments) <= 3  # rows that are closer than they need be are left out
    assert moments == sorted(moments)


def test_the_servers_counts_are_those_since_the_run_began():
    moments = [
        Moment(90.0, Collections(5, 1, 0, 0.5)),
        Moment(101.0, Collections(7, 1, 0, 0.6)),
        Moment(103.0, Collections(9, 2, 1, 1.0)),
    ]
    samples = sample_rows([Sample(at_s, *[0] * 7) for at_s in (0.0, 1.0, 2.0, 4.0)])
    filled = pd.DataFrame(with_server(samples, moments, began_unix_s=100.0))

    assert [0, 2, 2, 4] == filled["server_young"].tolist()
    assert [0, 0, 0, 1] == filled["server_full"].tolist()
    assert pytest.approx([0, 0.1, 0.1, 0.5]) == filled["server_pause_s"].tolist()
    assert np.isnan(samples["server_young"]).all()


@pytest.mark.slow
def test_a_run_knows_the_collections_of_both_sides():
    """Left alone, the collectors of client and server run; the counts begin at 0 and never fall."""
    reads = workload.reads(value_bytes_mean=16)
    no_disk = {"read_delay_s": 0, "write_delay_s": 0, "use_asyncio": True}
    with serving(**no_disk, settle_garbage=False) as server:
        run = load.run(
            strategies.bounded, server, reads, in_flight=300, calls=3_000, settle_garbage=False
        )
    counted = run.samples[[*columns("client"), *columns("server")]]

    assert not counted.isna().any(axis=None)
    assert (counted.diff().dropna() >= 0).all(axis=None)
    assert counted["client_young"].iloc[-1] > 0
    assert counted["server_young"].iloc[-1] > 0
