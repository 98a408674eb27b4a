"""The messages on the wire, as the contract spells them."""

import re
from pathlib import Path
from typing import Final

from kvstore.course import rendering
from kvstore.course.source import fenced

PROTO: Final = Path(__file__).resolve().parents[3] / "proto/kvstore/v1/kvstore.proto"


def show_message(*names: str) -> None:
    """Show messages or services of the proto file with the comments above them."""
    text = "\n\n".join(definition(name) for name in names)
    rendering.show(
        {
            "text/plain": text,
            "text/markdown": f"proto/kvstore/v1/kvstore.proto\n\n{_as_protobuf(text)}",
        }
    )


def definition(name: str) -> str:
    """The text of one message, enum or service; LookupError when the file has none."""
    found = re.search(
        rf"(?:^//[^\n]*\n)*^(?:message|enum|service) {re.escape(name)} (?:{{}}|{{.*?^}})",
        PROTO.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise LookupError(f"the contract has no {name!r}: it is in {PROTO.name}")
    return found.group()


def _as_protobuf(text: str) -> str:
    return fenced(text).replace("python", "protobuf", 1)
