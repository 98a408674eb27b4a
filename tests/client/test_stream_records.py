"""StreamRecords: each request of a stream has one record, however the stream ends."""

from kvstore.client.recording import Recording, StreamRecords
from kvstore.measure.recorder import Recorder
from kvstore.protocol import NO_ANSWER, OK, STATUSES


def test_a_request_that_is_sent_when_its_stream_has_ended_is_recorded():
    """The sender does not know yet that the stream broke: a lost request must not vanish."""
    recorder = Recorder()
    records = StreamRecords(Recording(recorder=recorder), "pkg.S/Chat", 0, recorder.sending)
    for _ in range(3):
        records.sent(b"before", 6)
    records.replied(b"reply", 5)
    records.end()
    records.sent(b"after", 5)

    assert [OK, NO_ANSWER, NO_ANSWER, NO_ANSWER] == recorder.array()["status"].tolist(), STATUSES
    assert recorder.issued == len(recorder)
    assert 3 == records.unanswered
