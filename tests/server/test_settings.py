"""settings.py: what makes no sense is refused, by name."""

import dataclasses
import math
from typing import Any

import pytest
from tables import for_each

from kvstore.server import LOCKINGS, ServerSettings
from kvstore.server.__main__ import main, parser

CHANGED: dict[str, Any] = {
    "read_delay_s": 1e-05, "write_delay_s": 0.1, "locking": "per_key", "threads": 3, "port": 4321,
    "max_concurrent_rpcs": 9, "max_streams": 8, "refuse_streams": False, "group_commit": True,
    "station_times": True, "metadata_work": 2, "default_limits": True, "settle_garbage": False,
    "listen": "0.0.0.0", "tls": "/some where",
    "time_needed_s": 0.1, "stall_s": 0.2, "stall_every_s": 2.0, "store": "sqlite:/some where/else",
    "transport": "poller", "use_asyncio": True,
}  # fmt: skip
"""A value other than its default for every setting but those that exclude one of these."""
BEHIND: dict[str, Any] = {
    "writing": "read_then_write", "back_end": "127.0.0.1:8",
    "back_end_timeout_s": 0.5,
}  # fmt: skip
ON_ETCD: dict[str, Any] = {"store": "etcd:127.0.0.1:8,127.0.0.1:9", "use_asyncio": True}


def test_the_defaults_are_those_of_the_java_original_and_do_not_change():
    settings = ServerSettings()

    assert (0.010, 0.050, "global") == (
        settings.read_delay_s,
        settings.write_delay_s,
        settings.locking,
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.threads = 5  # type: ignore[misc]
    for locking in LOCKINGS:  # the edges of what is allowed
        ServerSettings(
            read_delay_s=0, write_delay_s=59.9, locking=locking, threads=1, port=65_535,
            max_concurrent_rpcs=1,
        )  # fmt: skip


@for_each(
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


def test_settings_survive_the_journey_to_another_process():
    for given in ({}, CHANGED, BEHIND, ON_ETCD):
        settings = ServerSettings(**given)
        assert settings == ServerSettings.from_json(settings.to_json())
    for text in ("[]", "5", '{"colour": 1}', "{"):
        with pytest.raises(ValueError, match=r"not the settings of a server|Expecting"):
            ServerSettings.from_json(text)


def test_the_flags_of_the_command_are_the_fields():
    """Each setting is one field of the dataclass: a flag is missing for none of them."""
    names = {each.name for each in dataclasses.fields(ServerSettings)}
    flags = {action.dest for action in parser()._actions}
    understood: dict[str, Any] = {}
    for values in (ON_ETCD, CHANGED, BEHIND):
        arguments = []
        for name, value in values.items():
            flag = name.replace("_", "-")
            yes_or_no = {True: f"--{flag}", False: f"--no-{flag}"}
            arguments.append(yes_or_no[value] if isinstance(value, bool) else f"--{flag}={value}")
        understood |= vars(parser().parse_args(arguments))

    assert names == {*CHANGED, *BEHIND, *ON_ETCD} == flags - {"help", "identity", "settings"}
    assert {**ON_ETCD, **CHANGED, **BEHIND} == {name: understood[name] for name in names}
    assert all(getattr(ServerSettings(), name) != value for name, value in CHANGED.items())


def test_a_flag_changes_one_of_the_settings_given_as_json(monkeypatch):
    served = []
    monkeypatch.setattr("kvstore.server.__main__.serve", lambda *what: served.append(what[:2]))
    given = ServerSettings(**CHANGED)
    main([f"--settings={given.to_json()}", "--threads=4", "--identity=me"])

    assert [(dataclasses.replace(given, threads=4), "me")] == served
