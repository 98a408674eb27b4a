"""Command-line flags made from the fields of a dataclass, so that a setting is written once."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import MISSING, Field, field, fields
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin


def setting(default: Any, text: str, *, choices: Sequence[str] = ()) -> Any:
    """Return a field with its help text, and its permitted values where there are few."""
    metadata = {"help": text, "choices": choices}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def add_flags(parser: argparse.ArgumentParser, settings: type) -> None:
    """Add a flag for each field of a dataclass; a flag that is not given leaves no attribute."""
    for each in fields(settings):
        _add_flag(parser, each)


def given_flags(namespace: argparse.Namespace, settings: type) -> dict[str, Any]:
    """Return the fields of the dataclass whose flags were given, by name."""
    names = {each.name for each in fields(settings)}
    return {name: value for name, value in vars(namespace).items() if name in names}


def _add_flag(parser: argparse.ArgumentParser, each: "Field[Any]") -> None:
    flag, text = f"--{each.name.replace('_', '-')}", each.metadata["help"]
    if isinstance(each.default, bool):
        parser.add_argument(
            flag,
            dest=each.name,
            action=argparse.BooleanOptionalAction,
            default=argparse.SUPPRESS,
            help=f"{text} (default {'yes' if each.default else 'no'})",
        )
        return
    if each.default not in (None, MISSING, ()):
        shown = each.default if isinstance(each.default, str) else f"{each.default:g}"
        text = f"{text} (default {shown})"
    if choices := each.metadata["choices"]:
        parser.add_argument(
            flag, dest=each.name, choices=choices, default=argparse.SUPPRESS, help=text
        )
        return
    is_union = get_origin(each.type) in (Union, UnionType)  # on Python 3.14 these are the same
    types = set(get_args(each.type) if is_union else (each.type,)) - {NoneType}
    kind = types.pop() if types in ({int}, {float}, {str}) else json.loads
    metavar = "JSON" if kind is json.loads else "TEXT" if kind is str else "N"
    parser.add_argument(
        flag, dest=each.name, type=kind, default=argparse.SUPPRESS, metavar=metavar, help=text
    )
