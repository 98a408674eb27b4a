"""settings.py: what makes no sense is refused by name; a flag for each setting."""

from typing import Any

import pytest

from kvstore.server import ServerSettings
from kvstore.server.__main__ import parser

OF_EACH_KIND: dict[str, Any] = {
    "read_delay_s": 1e-05,
    "locking": "per_key",
    "threads": 3,
    "max_streams": 8,
    "refuse_streams": False,
    "newest_first": True,
    "tls": "/some where",
}
"""Values of every type, other than the default."""
ON_LOOP = {"use_asyncio": True}


@pytest.mark.parametrize(
    ("named", "settings"),
    [
        (
            r"read_delay_s must be a number of seconds from 0 to 60, got -0.01 \(10 ms is 0.010\)",
            {"read_delay_s": -0.01},
        ),
        ("write_delay_s must .* got 60", {"write_delay_s": 60}),
        ("read_delay_s must .* got '10ms'", {"read_delay_s": "10ms"}),
        ("locking must be one of global, per_key, per_key_held, got 'row'", {"locking": "row"}),
        ("threads must be a whole number from 1 to 10000, got 0", {"threads": 0}),
        ("newest_first must be True or False, got 1", {"newest_first": 1}),
        (r"stall_s must be .* got 2 of every 1\.0 seconds", {"stall_s": 2}),
        ("back_end_timeout_s must be above 0", {"back_end_timeout_s": 0}),
        (
            "other machines can reach .* needs TLS and a token.*course.py class certificate",
            {"listen": "0.0.0.0"},
        ),
        ("needs TLS and a token", {"listen": "2001:db8::1"}),
        ("listen must be an IP address", {"listen": "localhost"}),
        ("back_end must be host:port.*other.address", {"back_end": "localhost"}),
        ("store must .* got 'sqlite:'", {"store": "sqlite:"}),
        ("store must .* got 'etcd:a:1,b'", {"store": "etcd:a:1,b"}),
        ("store sqlite is served on asyncio only", {"store": "sqlite:x"}),
        ("has no group_commit", {**ON_LOOP, "store": "etcd:a:1", "group_commit": True}),
        ("stores nothing itself", {**ON_LOOP, "store": "sqlite:x", "back_end": "127.0.0.1:9"}),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(named, settings):
    with pytest.raises(ValueError, match=named):
        ServerSettings(**settings)


def test_settings_survive_the_journey_to_another_process():
    for changed in ({}, OF_EACH_KIND):
        settings = ServerSettings(**changed)
        assert settings == ServerSettings.from_json(settings.to_json())
    for text in ("[]", "5", '{"colour": 1}', "{"):
        with pytest.raises(ValueError, match=r"not the settings of a server|Expecting"):
            ServerSettings.from_json(text)


def test_the_flags_of_the_command_are_the_fields():
    arguments = []
    for name, value in OF_EACH_KIND.items():
        flag = name.replace("_", "-")
        yes_or_no = {True: f"--{flag}", False: f"--no-{flag}"}
        arguments.append(yes_or_no[value] if isinstance(value, bool) else f"--{flag}={value}")
    understood = vars(parser().parse_args(arguments))

    assert OF_EACH_KIND == {name: understood[name] for name in OF_EACH_KIND}
