"""Requests as protobuf's JSON has them, for messages and .proto files of every kind."""

from pathlib import Path

import hostile
import pytest
from google.protobuf.message_factory import GetMessageClass

from kvstore.client.reflection import BadRequest, Request, in_sources
from kvstore.load_test.__main__ import main

KINDS = (
    "StringValue",
    "BytesValue",
    "BoolValue",
    "Int64Value",
    "DoubleValue",
    "Timestamp",
    "Duration",
    "FieldMask",
    "Value",
    "ListValue",
    "Struct",
    "Any",
    "Empty",
)
FILES = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
KNOWN = "\n".join(
    [
        'syntax = "proto3"; package known;',
        *(f'import "google/protobuf/{name}.proto";' for name in FILES),
        "service All {",
        *(f"rpc {k} (google.protobuf.{k}) returns (google.protobuf.Empty);" for k in KINDS),
        "rpc Texts (stream google.protobuf.StringValue) returns (google.protobuf.Empty);",
        "rpc Lists (stream google.protobuf.ListValue) returns (google.protobuf.Empty);",
        "}",
    ]
)


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    file = tmp_path_factory.mktemp("known") / "known.proto"
    file.write_text(KNOWN)
    return in_sources([str(file)]), file


def sent(method, value):
    """The messages that a call with this JSON sends."""
    kind = GetMessageClass(method.descriptor.input_type)
    (messages,) = method.calls([value]).requests
    return [kind.FromString(each) for each in messages]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("StringValue", "Sam", 'value: "Sam"'),
        ("StringValue", {"value": "Sam"}, 'value: "Sam"'),
        ("BytesValue", "YWI=", 'value: "ab"'),
        ("Int64Value", "7", "value: 7"),
        ("Timestamp", "1970-01-01T00:00:05Z", "seconds: 5"),
        ("Duration", "1.5s", "seconds: 1 nanos: 500000000"),
        ("Value", None, "null_value: NULL_VALUE"),
        ("ListValue", [1, 2], "values { number_value: 1 } values { number_value: 2 }"),
        (
            "Any",
            {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1s"},
            r'type_url: "type.googleapis.com/google.protobuf.Duration" value: "\010\001"',
        ),
    ],
)
def test_a_request_is_any_message_of_protobuf(known, kind, value, shown):
    (message,) = sent(known[0].method(f"known.All/{kind}"), value)

    assert shown == " ".join(str(message).split())


@pytest.mark.slow
def test_a_list_is_several_messages_of_a_stream(known):
    described, _ = known
    texts = sent(described.method("known.All/Texts"), ["a", "b"])
    lists = sent(described.method("known.All/Lists"), [[1], [2, 3]])

    assert ["a", "b"] == [each.value for each in texts]
    assert [1, 2] == [len(each.values) for each in lists]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        ("Timestamp", "tomorrow", '"2026-01-02T03:04:05Z"'),
        ("Int64Value", [1], "takes one request message per call"),
        ("Struct", 5, "must be a JSON object"),
    ],
)
def test_a_message_that_is_written_otherwise_says_how(known, kind, value, says):
    with pytest.raises(BadRequest) as wrong:
        known[0].method(f"known.All/{kind}").calls([value])

    assert says in str(wrong.value)


NAMES = """
package deep.names;
message Name {{ {label} string text = 1 {option}; }}
"""
USES = """
import "deep/names/name.proto";
package deep.uses;
service Uses { rpc Do (deep.names.Name) returns (deep.names.Name); }
"""
SYNTAX = {
    "proto2": ('syntax = "proto2";', "required", ""),
    "proto3": ('syntax = "proto3";', "optional", ""),
    "2023": ('edition = "2023";', "", "[features.field_presence = LEGACY_REQUIRED]"),
    "2024": ('edition = "2024";', "", "[features.field_presence = LEGACY_REQUIRED]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("syntax", SYNTAX)
def test_sources_that_import_each_other_are_found_from_any_folder(tmp_path, monkeypatch, syntax):
    mark = b"\xef\xbb\xbf" if syntax == "proto2" else b""  # of an editor on Windows
    begin, label, option = SYNTAX[syntax]
    files = {
        "deep/names/name.proto": begin + NAMES.format(label=label, option=option),
        "deep/uses/uses.proto": begin + USES,
    }
    for name, text in files.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(mark + text.encode())
    monkeypatch.chdir(tmp_path / "src" / "deep")
    sources = ["uses/uses.proto", str(tmp_path / "src/deep/names/name.proto")]

    for paths in (sources, sources[::-1], sources[:1]):
        method = in_sources(paths).method("deep.uses.Uses/Do")
        assert b"\n\x02ab" == method.encoded(Request({"text": "ab"}, "request 1"))
    if syntax != "proto3":
        with pytest.raises(BadRequest, match="missing text"):
            method.encoded(Request({}, "request 1"))


def test_a_source_that_cannot_be_compiled_is_one_error(tmp_path, capsys):
    file = Path(tmp_path, "broken.proto")
    file.write_text('syntax = "proto3"; message')
    with hostile.serving() as address:
        status = main([address, "a.B/C", f"--proto={file}"])

    assert 2 == status
    assert "cannot be compiled" in capsys.readouterr().err
