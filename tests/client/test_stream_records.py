"""StreamRecords: each request of a stream has one record, however the stream ends."""

from kvstore.client.messages import PipelineReader, StreamRequest, batch_of, retrieve
from kvstore.client.recording import Recording, StreamRecords
from kvstore.measure.recorder import Recorder
from kvstore.protocol import NO_ANSWER, OK, STATUSES
from kvstore.v1 import kvstore_pb2 as pb


def test_a_request_that_is_sent_when_its_stream_has_ended_is_recorded():
    """The sender does not know yet that the stream broke: a lost request must not vanish."""
    recorder = Recorder()
    recording = Recording(recorder=recorder, pipeline=PipelineReader())
    records = StreamRecords(recording, 0, recorder.sending)
    before = [StreamRequest(number, batch_of([retrieve(b"k")])).request for number in range(4)]
    for request in before[:3]:
        records.sent(request, 6)
    records.replied(pb.PipelineResponse(id=0, statuses=bytes([OK]), values=[b"v"]), 5)
    records.end()
    records.sent(before[3], 5)

    assert [OK, NO_ANSWER, NO_ANSWER, NO_ANSWER] == recorder.array()["status"].tolist(), STATUSES
    assert recorder.issued == len(recorder)
    assert 3 == records.unanswered
