"""The service under test, from the flags: its address, its channel, its methods and requests."""

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from kvstore.client.address import balanced, endpoints
from kvstore.client.channel import Target, Tls, check_encryption, presented_certificate
from kvstore.client.reflection import (
    BadRequest,
    Descriptions,
    Metadata,
    Method,
    Request,
    by_reflection,
    in_files,
    in_sources,
)
from kvstore.client.workload import MethodCalls
from kvstore.credentials import read_token
from kvstore.load_test.conditions import Check
from kvstore.load_test.data import DataPerCall, has_templates, rows_of
from kvstore.load_test.inputs import json_requests, requests_of, text_of, value_of
from kvstore.load_test.options import Flags

GZIP: Final = 2
"""Number of gzip in `grpc.default_compression_algorithm`."""
SERVICE_CONFIG: Final = {
    "methodConfig": list,
    "loadBalancingConfig": list,
    "loadBalancingPolicy": str,
    "retryThrottling": dict,
    "healthCheckConfig": dict,
}
METHOD_CONFIG: Final = {
    "name": list,
    "timeout": str,
    "waitForReady": bool,
    "retryPolicy": dict,
    "hedgingPolicy": dict,
    "maxRequestMessageBytes": int | str,
    "maxResponseMessageBytes": int | str,
}
RETRY_POLICY: Final = {
    "maxAttempts": int,
    "initialBackoff": str,
    "maxBackoff": str,
    "backoffMultiplier": int | float,
    "retryableStatusCodes": list,
}
"""Members of gRPC's service config and their types; gRPC ignores the whole text if one is wrong."""


def target_of(flags: Flags) -> Target:
    """Return the target of the flags, after a look at its encryption.

    Raises `ValueError` for an address or a combination that makes no sense, or a host that is not
    this machine, and `ServerNotReached` if nothing listens there.
    """
    for each in endpoints(flags.address):
        if not each.is_loopback and not flags.i_may_load_this_host:
            raise ValueError(
                f"{each.host} is not this machine. A load test takes a service away from its"
                " users, and it looks like an attack to its owner. If you may load this host, say"
                " so with --i-may-load-this-host"
            )
    address = balanced(flags.address)
    tls = _tls(flags, address)
    target = Target(address, None, tls, tuple(_channel_options(flags)))
    check_encryption(target)
    return target


def _channel_options(flags: Flags) -> list[tuple[str, Any]]:
    options: list[tuple[str, Any]] = []
    if flags.max_message_bytes is not None:
        for what in ("receive", "send"):
            options.append((f"grpc.max_{what}_message_length", flags.max_message_bytes))
    if flags.gzip:
        options.append(("grpc.default_compression_algorithm", GZIP))
    if flags.keepalive is not None:
        options.append(("grpc.keepalive_time_ms", min(int(1e3 * flags.keepalive), 2**31 - 1)))
        options.append(("grpc.keepalive_permit_without_calls", 1))
        options.append(("grpc.http2.max_pings_without_data", 0))
    if flags.authority is not None:
        options.append(("grpc.default_authority", flags.authority))
    return options


def _tls(flags: Flags, address: str) -> Tls | None:
    """Return how connections are encrypted; None: they are not."""
    files = any((flags.ca, flags.cert, flags.key, flags.server_name))
    if not (flags.tls or files or flags.insecure_skip_verify):
        if flags.token:
            raise ValueError("a token is sent over encrypted connections only: give --tls or --ca")
        return None
    ca, cert, key = (
        Path(path).read_bytes() if path else None for path in (flags.ca, flags.cert, flags.key)
    )
    server_name = flags.server_name
    if flags.insecure_skip_verify:
        if ca:
            raise ValueError(
                "--ca verifies the server and --insecure-skip-verify does not: give one"
            )
        ca, name = presented_certificate(address)
        server_name = server_name or name
    token = read_token(flags.token) if flags.token else None
    return Tls(ca=ca, certificate=cert, key=key, server_name=server_name, token=token)


def service_config_of(text: str | None, address: str) -> dict[str, Any]:
    """Return the service config of the flags; several addresses are balanced by round robin.

    Raises `BadRequest` for a text that gRPC would ignore.
    """
    config = {} if text is None else value_of(text, "--service-config")
    _check_members(config, SERVICE_CONFIG, "--service-config")
    for number, each in enumerate(config.get("methodConfig", ())):
        where = f"--service-config: methodConfig[{number}]"
        _check_members(each, METHOD_CONFIG, where)
        if "retryPolicy" in each:
            policy = each["retryPolicy"]
            _check_members(policy, RETRY_POLICY, f"{where}: retryPolicy")
            if lacking := sorted(set(RETRY_POLICY) - set(policy)):
                raise BadRequest(f"{where}: retryPolicy lacks {', '.join(lacking)}")
    if len(endpoints(address)) > 1 and not any(name.startswith("loadB") for name in config):
        config["loadBalancingConfig"] = [{"round_robin": {}}]
    return config


def _check_members(members: Any, known: Mapping[str, Any], where: str) -> None:
    if not isinstance(members, dict):
        raise BadRequest(f"{where} must be a JSON object, got {members!r:.60}")
    for name, value in members.items():
        if name not in known:
            raise BadRequest(f"{where} has no {name!r}: there are {', '.join(known)}")
        if not isinstance(value, known[name]):
            raise BadRequest(
                f"{where}: {name} must be a {_in_words(known[name])}, got {value!r:.60}"
            )


def _in_words(kind: Any) -> str:
    names = {list: "list", str: "text", dict: "object", bool: "true or false"}
    return names.get(kind, "number")


def descriptions_of(flags: Flags, target: Target, metadata: Metadata) -> Descriptions:
    """Return what describes the service: files if some were given, else the server's reflection."""
    if flags.descriptors and flags.proto:
        raise ValueError("give --descriptors or --proto, not both")
    if flags.descriptors:
        return in_files(flags.descriptors)
    if flags.proto:
        return in_sources(flags.proto, flags.import_path)
    return by_reflection(target, metadata)


def calls_of(flags: Flags, described: Descriptions, metadata: Metadata) -> MethodCalls:
    """Return the calls of the flags: one method, or several with weights."""
    methods = [_weighted(each) for each in flags.method]
    every = _requests(flags, len(methods))
    rows = rows_of(flags.data) if flags.data else []
    of_each = [
        replace(
            _calls(described.method(name), requests, metadata, rows, flags.check),
            weight=weight,
            stop_after_s=flags.stream_time,
            stop_after_messages=flags.stream_messages,
        )
        for (name, weight), requests in zip(methods, every, strict=True)
    ]
    return replace(of_each[0], others=tuple(of_each[1:]))


def _calls(
    method: Method,
    requests: list[Request],
    metadata: Metadata,
    rows: list[dict[str, Any]],
    checks: Sequence[str],
) -> MethodCalls:
    check = Check(method, checks) if checks else None
    differ = any(has_templates(each.value) for each in requests)
    if differ or any(has_templates(value) for _, value in metadata):
        source = DataPerCall(method, requests, metadata, rows)
        messages, first = source.first
        return MethodCalls(
            method=method.name,
            shape=method.shape,
            requests=(messages,),
            metadata=first,
            source=source,
            check_reply=check,
        )
    if rows:
        raise BadRequest("--data has rows, and no template such as {{row.id}} uses them")
    return replace(method.calls(requests), metadata=tuple(metadata), check_reply=check)


def _weighted(text: str) -> tuple[str, float]:
    name, equals, weight = text.partition("=")
    try:
        return name, float(weight) if equals else 1.0
    except ValueError:
        raise ValueError(f"a weight is a number, such as {name}=3, got {text!r}") from None


def _requests(flags: Flags, methods: int) -> list[list[Request]]:
    """Return the requests of each method. One --json or --requests is for all of them."""
    if flags.requests and flags.request:
        raise BadRequest("give --json or --requests, not both")
    requests = [requests_of(each) for each in flags.requests]
    requests += [json_requests(each) for each in flags.request]
    if len(requests) > 1 and len(requests) != methods:
        raise BadRequest(
            f"{methods} methods need one --json or --requests each, or one for all: got"
            f" {len(requests)}"
        )
    if not requests:
        requests = [[Request({}, "request 1")]]
    return requests if len(requests) == methods else requests * methods


def flags_of(path: str, known: Mapping[str, click.Parameter]) -> dict[str, Any]:
    """Return the flags in a TOML file by the name of their parameter.

    `known` has the parameter of each flag. A table [[method]] has a name, a weight and a `json` or
    `requests`. Raises `ValueError` for a name that is no flag.
    """
    try:
        document = tomllib.loads(text_of(path))
    except tomllib.TOMLDecodeError as wrong:
        raise ValueError(f"{path} is not TOML: {wrong}") from None
    flags: dict[str, Any] = {}
    for name, value in document.items():
        if name == "method" and isinstance(value, list) and value and isinstance(value[0], dict):
            flags.update(_of_tables(value, path))
            continue
        short = name.replace("_", "-")
        if short not in known:
            near = difflib.get_close_matches(short, known, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise ValueError(f"{path}: {name} is no flag{hint}")
        flag = known[short]
        several = isinstance(value, list) or not getattr(flag, "multiple", False)
        flags[str(flag.name)] = _as_text(value) if several else [_as_text(value)]
    return flags


def _of_tables(tables: list[dict[str, Any]], path: str) -> dict[str, Any]:
    names, texts, files = [], [], []
    for each in tables:
        if unknown := set(each) - {"name", "weight", "json", "requests"}:
            raise ValueError(f"{path}: a method has no {', '.join(sorted(unknown))}")
        names.append(f"{each['name']}={each.get('weight', 1)}")
        if "requests" in each:
            files.append(each["requests"])
        else:
            texts.append(_as_text(each.get("json", {})))
    if texts and files:
        raise ValueError(f"{path}: give json or requests for all methods, not both")
    return {"method": tuple(names), "requests": tuple(files), "request": tuple(texts)}


def _as_text(value: Any) -> Any:
    """Return a table as JSON, as the flags take it."""
    return json.dumps(value) if isinstance(value, dict) else value
