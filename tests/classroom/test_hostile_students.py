"""A class in a room with somebody hostile: no vote of another changes, and the class goes on."""

import json
import secrets
import socket
import ssl
import time
import urllib.error
import urllib.request

import grpc
import pytest
from rooms import class_open
from test_votes import sent, votes_of

from kvstore.classroom.client import Student
from kvstore.v1 import classroom_pb2 as messages

pytestmark = pytest.mark.slow


@pytest.fixture
def room(tmp_path):
    with class_open(tmp_path / "class.db") as opened:
        yield opened


@pytest.fixture
def student(room, tmp_path):
    one = Student(tmp_path / "one")
    one.join(room.address, room.code)
    return one


def refused(call, request):
    """Return the status with which a call is refused."""
    with pytest.raises(grpc.RpcError) as error:
        call(request, timeout=20)
    return error.value.code()


def answer_of(address, body=None, **headers):
    """Return the status with which the page answers."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def ballot(sequence=1, question="03.global_lock", **answer):
    return messages.Ballot(sequence=sequence, question_id=question, **(answer or {"value": 1.0}))


def test_nobody_votes_for_another_or_without_having_joined(room, student):
    student.vote("03.global_lock", value=25.0, unit="calls/s")
    sent(student)

    with student.membership().calling() as stub:
        for secret in (b"", b"1", secrets.token_bytes(16)):
            request = messages.VoteRequest(voter_secret=secret, ballots=[ballot(99)])
            assert refused(stub.Vote, request) is grpc.StatusCode.UNAUTHENTICATED

    assert [(1, 25.0)] == votes_of(room)


def test_a_replayed_vote_changes_nothing(room, student):
    """Whoever records a notebook's own calls and sends them again, in any order."""
    secret = bytes.fromhex(student.membership().secret)
    old, new = (
        messages.VoteRequest(voter_secret=secret, ballots=[ballot(n, value=v)])
        for n, v in ((1, 10.0), (2, 25.0))
    )
    with student.membership().calling() as stub:
        for request in (old, new, new, old, old):
            assert 1 == len(stub.Vote(request, timeout=20).kept)
        room.do("go", "03.global_lock")
        for action in ("open", "close", "reveal"):
            room.do(action)
        stub.Vote(new, timeout=20)

    assert [(1, 25.0)] == votes_of(room)


def test_what_is_no_vote_is_refused_and_the_votes_beside_it_are_kept(room, student):
    odd = [
        ballot(1, value=float("nan")),
        ballot(2, value=float("inf")),
        ballot(3, value=-1.0),
        ballot(4, choice="<b>"),
        ballot(5, question="no question", value=1.0),
        ballot(6, question=f"03.{'x' * 999}", value=1.0),
        messages.Ballot(sequence=7, question_id="03.global_lock"),
        messages.Ballot(sequence=8, question_id="03.global_lock", value=1.0, unit="x" * 999),
        ballot(9, value=25.0),
        ballot(10, question="03.double", choice="b"),
    ]
    secret = bytes.fromhex(student.membership().secret)
    with student.membership().calling() as stub:
        reply = stub.Vote(messages.VoteRequest(voter_secret=secret, ballots=odd), timeout=20)

    assert list(reply.refused) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [(1, 25.0)] == votes_of(room)
    assert [(1, "b")] == votes_of(room, "03.double")


def test_wrong_words_are_slowed_down_and_do_not_stop_those_who_have_joined(room, student):
    word = "0000" if not room.code.endswith("0000") else "1111"
    answers = []
    with student.membership().calling() as stub:
        for _ in range(15):
            request = messages.JoinRequest(word=word, voter_secret=secrets.token_bytes(16))
            answers.append(refused(stub.Join, request))
    student.vote("03.global_lock", value=25.0, unit="calls/s")
    sent(student)

    assert answers[0] is grpc.StatusCode.UNAUTHENTICATED
    assert answers[-1] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert room.state()["joined"] == 1
    assert [(1, 25.0)] == votes_of(room)


def test_a_flood_of_votes_and_large_messages_is_refused(room, student, tmp_path):
    secret = bytes.fromhex(student.membership().secret)
    other = Student(tmp_path / "other")
    other.join(room.address, room.code)
    codes = []
    with student.membership().calling() as stub:
        many = messages.VoteRequest(voter_secret=secret, ballots=[ballot(n) for n in range(1, 300)])
        assert refused(stub.Vote, many) is grpc.StatusCode.RESOURCE_EXHAUSTED
        large = messages.VoteRequest(voter_secret=bytes(10**6))
        assert refused(stub.Vote, large) is grpc.StatusCode.RESOURCE_EXHAUSTED
        calls = [
            stub.Vote.future(
                messages.VoteRequest(voter_secret=secret, ballots=[ballot(n)]), timeout=60
            )
            for n in range(1, 2000)
        ]
        other.vote("03.global_lock", value=25.0, unit="calls/s")
        sent(other, within_s=90)
        codes = [call.code() for call in calls]

    assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes
    assert (1, 25.0) in votes_of(room)
    assert room.server.memory_info().rss < 150e6


def test_one_voter_cannot_fill_the_disk_with_questions(room, student):
    secret = bytes.fromhex(student.membership().secret)
    with student.membership().calling() as stub:
        for block in range(6):
            ballots = [
                ballot(100 * block + n + 1, question=f"99.made_up_{block}_{n}") for n in range(100)
            ]
            stub.Vote(messages.VoteRequest(voter_secret=secret, ballots=ballots), timeout=30)

    assert 400 == len(votes_of(room, None))


def test_a_call_that_ends_the_server_of_grpcio_does_not_end_the_class(room, student):
    """Its path is no UTF-8. Anybody who reaches the port can send it, without the code."""
    pem = ssl.get_server_certificate(("127.0.0.1", room.port))
    options = [("grpc.ssl_target_name_override", "rpc-throughput-class")]
    for _ in range(2):
        with (
            grpc.secure_channel(
                room.address, grpc.ssl_channel_credentials(pem.encode()), options=options
            ) as stranger,
            pytest.raises(grpc.RpcError),
        ):
            stranger.unary_unary(b"/kvstore.v1.\xff/x")(b"", timeout=10)

    student.vote("03.global_lock", value=25.0, unit="calls/s")
    sent(student)
    assert [(1, 25.0)] == votes_of(room)


def test_bytes_that_are_no_tls_and_open_connections_do_not_stop_a_vote(room, student):
    idle = [socket.create_connection(("127.0.0.1", room.port)) for _ in range(50)]
    for each in idle[:25]:
        each.sendall(secrets.token_bytes(512))

    student.vote("03.global_lock", value=25.0, unit="calls/s")
    sent(student)

    assert [(1, 25.0)] == votes_of(room)
    for each in idle:
        each.close()


def test_the_page_answers_only_to_its_address_on_this_machine(room):
    base, _, token = room.page.rstrip("/").rpartition("/")

    assert 200 == answer_of(room.page)
    assert 404 == answer_of(f"{base}/{'x' * len(token)}/state")
    assert 404 == answer_of(f"{base}/")
    assert 404 == answer_of(f"{room.page}state", Host="evil.example")
    ports = {
        (each.laddr.ip, each.laddr.port)
        for each in room.server.net_connections()
        if each.status == "LISTEN"
    }
    assert {ip.removeprefix("::ffff:") for ip, _ in ports} == {"127.0.0.1"}


def test_the_page_refuses_what_it_cannot_do(room):
    question = room.state()["id"]
    for sent_ in (
        b"no JSON",
        b"[]",
        b"{}",
        json.dumps({"action": "measure", "question": question, "value": "many"}).encode(),
        json.dumps({"action": "measure", "question": question, "value": -1}).encode(),
        json.dumps({"action": "go", "question": "elsewhere"}).encode(),
    ):
        assert 400 == answer_of(f"{room.page}do", sent_)
    room.do("close")  # it is not open
    room.do("reveal")
    assert "ready" == room.state()["phase"]


def test_a_lesson_does_not_wait_for_a_class_that_is_asleep(room, student):
    """A stopped process still takes connections and never answers."""
    room.server.suspend()
    took_s = []
    for value in range(1, 6):
        begun = time.monotonic()
        student.vote("03.global_lock", value=float(value), unit="calls/s")
        took_s.append(time.monotonic() - begun)
    time.sleep(1)
    assert 5 == student.waiting()
    room.server.resume()
    sent(student)

    assert [(1, 5.0)] == votes_of(room)
    assert min(took_s) < 5  # a call to the class may take ten
