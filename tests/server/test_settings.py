"""settings.py: what makes no sense is refused, by name."""

import dataclasses
import json
import math

import pytest

from kvstore.server import LOCKINGS, ServerSettings


def test_by_default_the_delays_are_those_of_the_java_original():
    settings = ServerSettings()

    assert (0.010, 0.050, "global") == (
        settings.read_delay_s,
        settings.write_delay_s,
        settings.locking,
    )


@pytest.mark.parametrize(
    ("named", "settings"),
    [
        (
            "read_delay_s must be a number of seconds from 0 to 60, got -0.01",
            {"read_delay_s": -0.01},
        ),
        ("write_delay_s must .* got 50000", {"write_delay_s": 50_000}),
        (r"got 60 \(10 ms is 0.010\)", {"write_delay_s": 60}),
        ("read_delay_s must .* got nan", {"read_delay_s": math.nan}),
        ("read_delay_s must .* got inf", {"read_delay_s": math.inf}),
        ("read_delay_s must .* got '10ms'", {"read_delay_s": "10ms"}),
        ("read_delay_s must .* got None", {"read_delay_s": None}),
        ("read_delay_s must .* got True", {"read_delay_s": True}),
        ("locking must be one of global, per_key, per_key_held, got 'row'", {"locking": "row"}),
        ("locking must be one of .* got None", {"locking": None}),
        ("writing must be one of in_one_step, read_then_write, .* got 'x'", {"writing": "x"}),
        ("threads must be a whole number from 1 to 10000, got 0", {"threads": 0}),
        ("threads must .* got 1.5", {"threads": 1.5}),
        ("threads must .* got 10001", {"threads": 10_001}),
        ("threads must .* got True", {"threads": True}),
        ("port must be a whole number from 0 to 65535, got 65536", {"port": 65_536}),
        ("port must .* got -1", {"port": -1}),
        ("port must .* got '0'", {"port": "0"}),
        ("max_concurrent_rpcs must .* got 0", {"max_concurrent_rpcs": 0}),
        ("max_streams must be a whole number .* got 0", {"max_streams": 0}),
        ("refuse_streams must be True or False, got 0", {"refuse_streams": 0}),
        ("metadata_work must be a whole number from 0 to 1000, got 1001", {"metadata_work": 1001}),
        ("default_limits must be True or False, got 1", {"default_limits": 1}),
        ("settle_garbage must be True or False, got None", {"settle_garbage": None}),
        ("group_commit must be True or False, got 'yes'", {"group_commit": "yes"}),
        ("time_needed_s must be a number of seconds .* got -1", {"time_needed_s": -1}),
        ("stall_s must be from 0 to less than stall_every_s, got -1", {"stall_s": -1}),
        (r"got 2 of every 1\.0 seconds", {"stall_s": 2}),
        ("stall_s must .* got nan", {"stall_s": math.nan}),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(named, settings):
    with pytest.raises(ValueError, match=named):
        ServerSettings(**settings)


@pytest.mark.parametrize("locking", LOCKINGS)
def test_the_edges_of_what_is_allowed_are_allowed(locking):
    ServerSettings(
        read_delay_s=0, write_delay_s=59.9, locking=locking, threads=1, port=65_535,
        max_concurrent_rpcs=1,
    )  # fmt: skip


def test_settings_survive_the_journey_as_json():
    settings = ServerSettings(locking="per_key", max_concurrent_rpcs=5)

    assert settings == ServerSettings(**json.loads(json.dumps(settings.as_dict())))


def test_settings_cannot_be_changed_while_a_server_runs():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ServerSettings().threads = 5  # type: ignore[misc]
