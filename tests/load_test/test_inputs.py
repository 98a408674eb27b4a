"""What engineers have: requests, metadata, addresses, descriptions; good ones and wrong ones."""

import json

import pytest
from google.protobuf.message_factory import GetMessageClass
from orders import PING, PLACE, UPLOAD, WATCH, orders

from kvstore.client.reflection import Descriptions
from kvstore.load_test.__main__ import main
from kvstore.measure import Run

pytestmark = pytest.mark.slow


@pytest.fixture
def load(service, capsys):
    """The command with three calls: its status, its report or None, its errors, what came."""

    def loaded(method, *arguments, address=None, calls=3):
        service.received.clear()
        status = main(
            [
                address or service.address,
                *([method] if method else []),
                "--no-calibration",
                "-q",
                "-o",
                "json",
                "-n",
                str(calls),
                *map(str, arguments),
            ]
        )
        out, err = capsys.readouterr()
        report = json.loads(out)["run"] if out.startswith("{") else None
        assert "Traceback" not in err
        # two calls before the run, which is not always in the order of sending
        return status, report, err, list(service.received)

    return loaded


def ids(files, received) -> set[str]:
    kind = Descriptions.of_set(files).method(PLACE).descriptor.input_type
    return {GetMessageClass(kind).FromString(raw).id for raw, _ in received}


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("bom.jsonl", b'\xef\xbb\xbf{"id":"a"}\r\n\r\n{"id":"b"}\r\n', {"a", "b"}),
        ("utf16.jsonl", '{"id":"ä"}\n'.encode("utf-16"), {"ä"}),
        ("pretty.json", b'[\n  {\n    "id": "a"\n  }\n]', {"a"}),
        ("values.json", b'{\n"id": "a"}\n{\n"id": "b"}', {"a", "b"}),
    ],
)
def test_a_file_of_requests_is_read_as_editors_and_tools_write_it(
    load, files, tmp_path, name, content, wanted
):
    file = tmp_path / name
    file.write_bytes(content)
    status, report, err, received = load(PLACE, "--requests", file)

    assert (0, {"OK": 3}) == (status, report["statuses"]), err
    assert wanted == ids(files, received)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ('{"X-Request-ID": "r1"}', [("x-request-id", "r1")]),
        ('[["a", "1"], ["a", "2"]]', [("a", "1"), ("a", "2")]),
        ("Trace-Bin=AAEC/w==", [("trace-bin", b"\x00\x01\x02\xff")]),
    ],
)
def test_metadata_reaches_the_service(load, written, wanted):
    status, _, err, received = load(PLACE, "--metadata", written)

    assert 0 == status, err
    names = {name for name, _ in wanted}
    for _, metadata in received:
        assert wanted == [tuple(each) for each in metadata if each[0] in names]


def test_a_secret_in_metadata_comes_from_a_file(load, tmp_path):
    """A command line can be read by every user of the machine."""
    token = tmp_path / "token.txt"
    token.write_text("Bearer s3cret\n")
    names = ("-H", f"authorization=@{token}", "-H", "x=1")
    status, _, err, received = load(PLACE, *names)

    assert 0 == status, err
    assert {("authorization", "Bearer s3cret"), ("x", "1")} <= {*received[0][1]}

    token.unlink()
    status, _, err, _ = load(PLACE, *names)
    assert 2 == status
    assert "token.txt" in err


def test_secrets_in_metadata_are_in_no_report_and_in_no_file(load, tmp_path):
    file = tmp_path / "run.npz"
    status, report, _, _ = load(
        PLACE, "--metadata", '{"authorization": "Bearer s3cret"}', "--save", file
    )

    assert 0 == status
    assert "s3cret" not in json.dumps(report)
    assert "s3cret" not in json.dumps(Run.load(file).settings)


@pytest.mark.parametrize(
    "form",
    [
        "dns:///{}",
        "{},{}",
    ],
)
def test_grpcs_own_names_of_an_address_are_accepted(load, service, files, form):
    with orders(files) as other:
        status, report, err, received = load(
            PING, address=form.format(service.address, other.address), calls=20
        )

        assert (0, {"OK": 20}) == (status, report["statuses"]), err
        assert bool(other.received) == (form == "{},{}")  # round robin
        assert received


def test_a_reply_above_the_limit_names_the_option_that_permits_it(load):
    big = ["--json", '{"id": "big"}']
    status, _, err, _ = load(PLACE, *big)
    assert 3 == status
    assert "--max-message-bytes" in err
    assert "correct the request" not in err

    assert 0 == load(PLACE, *big, "--max-message-bytes", 6_000_000)[0]


def test_reflection_gets_the_metadata_and_says_so_where_it_wants_some(load, files):
    with orders(files, token="Bearer abc") as odd:
        status, _, err, _ = load(PING, address=odd.address)
        assert 2 == status
        assert "UNAUTHENTICATED" in err
        assert "--metadata" in err

        metadata = '{"authorization": "Bearer abc"}'
        assert 0 == load(PING, "--metadata", metadata, address=odd.address)[0]


@pytest.mark.parametrize("odd", [{"refused": "v1"}, {"only": ("v1alpha",)}, {"only": ("v1",)}])
def test_one_version_of_reflection_is_enough(load, files, odd):
    with orders(files, **odd) as other:
        assert 0 == load(PING, address=other.address)[0]


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ({"placeholder": "shop/common/money.proto"}, "placeholder"),
        ({"missing": "shop/common/money.proto"}, "does not describe shop/common/money.proto"),
        ({"only": ()}, "has no reflection"),
    ],
)
def test_a_description_that_is_not_complete_names_the_fault_and_the_way_out(
    load, files, tmp_path, odd, says
):
    file = tmp_path / "set.binpb"
    file.write_bytes(files)
    with orders(files, **odd) as other:
        status, _, err, _ = load(PING, address=other.address)
        assert 2 == status
        assert says in err
        assert "--descriptors" in err

        assert 0 == load(PING, "--descriptors", file, address=other.address)[0]


def test_without_a_method_those_of_the_service_are_listed(service, capsys):
    status = main([service.address])
    out, err = capsys.readouterr()

    assert 2 == status
    assert {PLACE, PING, UPLOAD, WATCH, "shop.legacy.Legacy/Get"} == set(out.split())
    assert "give one of these methods" in err


def test_each_call_has_data_of_its_own_in_request_and_metadata(load, files, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("id,customer\na,1\nb,2\n")
    request = {"id": "{{row.id}}-{{count}}", "customer_id": "{{row.customer}}"}
    status, report, err, received = load(
        PLACE,
        "--json",
        json.dumps(request),
        "--data",
        rows,
        "--metadata",
        '{"n": "{{count(7)}}", "u": "{{uuid}}", "fixed": "f"}',
        calls=40,
    )

    assert (0, {"OK": 40}) == (status, report["statuses"]), err
    sent_ids = ids(files, received)
    assert len(received) == len(sent_ids) == 42  # two calls came before the run
    assert {"a-0", "b-1", "a-2"} <= sent_ids
    assert {str(7 + n) for n in range(42)} == {dict(each)["n"] for _, each in received}
    assert 42 == len({dict(each)["u"] for _, each in received})
    assert {"f"} == {dict(each)["fixed"] for _, each in received}


def test_a_file_has_the_flags_and_the_command_line_counts_more(load, tmp_path):
    file = tmp_path / "load.toml"
    file.write_text(
        '[[method]]\nname = "shop.v1.Orders/Place"\nweight = 3\njson = {id = "a"}\n'
        '[[method]]\nname = "shop.v1.Orders/Ping"\njson = {id = "b"}\n'
    )
    file.write_text('in-flight = 2\nmetadata = {x = "1"}\n' + file.read_text())
    status, report, err, received = load("", "--config", file)
    assert 0 == status, err
    assert 2 == report["in_flight"]
    assert {"1"} == {dict(each)["x"] for _, each in received}
    assert 3 == load("", "--config", file, "-c", 3)[1]["in_flight"]

    file.write_text("in-fligth = 2\n")
    status, _, err, _ = load(PING, "--config", file)
    assert 2 == status
    assert "did you mean in-flight?" in err


def test_replies_that_fail_a_check_are_counted_and_end_with_1(load, capsys):
    status, _, err, _ = load(PLACE, "--check", "number > 6", "--workers", 2, "-c", 2)
    assert 2 == status
    assert "--workers" in err
    assert 0 == load(PLACE, "--check", 'text == "ok"', "--check", "number > 6")[0]
    assert 1 == load(PLACE, "--check", "number < 7")[0]
    for wrong in ("number", "nope == 1", "number = 7"):
        assert 2 == load(PLACE, "--check", wrong)[0]


ROWS = ["--json", '{"id": "{{row.id}}"}', "--data"]


@pytest.mark.parametrize(
    ("says", "arguments"),
    [
        ("line 1: the byte 0xe9 is not utf-8", ["--requests", b'{"id":"caf\xe9"}']),
        ("line 3: JSON has no comments", ["--requests", b'{"id":"a"}\n\n# one\n{"id":"b"}']),
        ("line 1: the key 'id' is there twice", ["--requests", b'{"id":"a","id":"b"}']),
        ("line 2: shop.v1.Orders/Place takes one request", ["--requests", b'{}\n[{"id":"a"}]']),
        ("line 2 does not fit shop.v1.Order", ["--requests", b'{"id":"a"}\n{"idd":"a"}']),
        ("must be a JSON object", ["--json=5"]),
        ("request 1: missing id", ["shop.legacy.Legacy/Get", "--json", '{"n": 3}']),
        ("'x' must be a text or a number, got null", ["--metadata", '{"x": null}']),
        ("for gRPC itself", ["--metadata", "grpc-timeout=1"]),
        ("--metadata is not JSON", ["--metadata", "{x}"]),
        ("methodConfig must be a list", ["--service-config", '{"methodConfig": "x"}']),
        ("must be a JSON object", ["--service-config", "[1]"]),
        ("{{nope}} is no template", ["--json", '{"id": "{{nope}}"}']),
        ("needs --data", ["--json", '{"id": "{{row.id}}"}']),
        ("line 2", [*ROWS, b"id,name\na\n"]),
        ("row 1 of --data has no id: it has name", [*ROWS, b"name\na\n"]),
        ("no service x.Y is described: there are: shop.", ["x.Y/Z"]),
        ("a method is pkg.Service/Method", ["Place"]),
        ("sends the course's own messages", ["--strategy=pipelined"]),
        ("client certificate needs its private key", ["--cert", b""]),
        ("is not a descriptor set", ["--descriptors", b"x"]),
        ("a time is a number", ["--p99=5 parsecs"]),
        ("steps are such as", ["--steps=5"]),
        ("give --p99", ["--find-rate"]),
    ],
)
def test_bad_input_is_a_clear_error_before_any_load(load, tmp_path, says, arguments):
    """Bytes are the content of a file. The first argument may be the method."""
    if isinstance(arguments[-1], bytes):
        file = tmp_path / "file.csv"
        file.write_bytes(arguments[-1])
        arguments = [*arguments[:-1], file]
    method = PLACE if str(arguments[0]).startswith("-") else ""
    status, _, err, received = load(method, *arguments)

    assert (2, []) == (status, received)
    assert says in err


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:115637", "a port is a number from 1 to 65535"),
        ("http://127.0.0.1:50101", "write 127.0.0.1:50101"),
        ("https://127.0.0.1:50101/x", "write 127.0.0.1:50101 --tls"),
        ("xds:///a", "the scheme of an address"),
        ("dns:///192.0.2.1:50", "192.0.2.1 is not this machine"),
        ("192.0.2.1:50051", "--i-may-load-this-host"),
        ("0.0.0.0:50051", "looks like an attack"),
    ],
)
def test_an_address_that_would_load_something_else_is_refused(load, address, says):
    status, _, err, _ = load(PING, address=address)

    assert 2 == status
    assert says in err
