import pytest

from tfrecord_builder import errors
from tfrecord_builder.corpora import segments


@pytest.mark.parametrize(
    ("row", "segment"),
    [
        ({}, segments.Segment()),
        ({"start": "", "end": " ", "duration": "", "channel": ""}, segments.Segment()),
        ({"start": "0.5", "end": "2.0"}, segments.Segment(0.5, 1.5)),
        ({"start": "0.5", "duration": "1.5"}, segments.Segment(0.5, 1.5)),
        ({"start": " 0.5 "}, segments.Segment(0.5)),
        ({"end": "2"}, segments.Segment(0.0, 2.0)),
        ({"duration": "2e0"}, segments.Segment(0.0, 2.0)),
        ({"start": "1", "end": "2.5", "duration": "1.5"}, segments.Segment(1.0, 1.5)),
        ({"start": "1", "end": "2.5", "duration": "1.46"}, segments.Segment(1.0, 1.5)),  # rounded
        ({"channel": "1"}, segments.Segment(channel=1)),
        ({"channel": "A"}, segments.Segment(channel=0)),
        ({"channel": "b"}, segments.Segment(channel=1)),
        ({"start": "2", "end": "2"}, segments.Segment(problem=segments.EMPTY)),
        ({"start": "2", "end": "1", "channel": "0"}, segments.Segment(channel=0, problem=segments.EMPTY)),
        ({"duration": "0"}, segments.Segment(problem=segments.EMPTY)),
        ({"seconds": "9", "note": "x"}, segments.Segment()),
        # SpeechBrain: stop and duration imply the sample rate.
        ({"start": "12000", "stop": "32000", "duration": "2.5"}, segments.Segment(1.5, 2.5)),
        ({"start": "12000", "stop": "32000", "duration": "10"}, segments.Segment(problem=segments.SAMPLES)),
        ({"start": "12000", "stop": "32000"}, segments.Segment(problem=segments.SAMPLES)),
        ({"start": "0", "stop": "40000", "duration": "2.5"}, segments.Segment(0.0, 2.5)),
        ({"start": "1.5", "stop": "end", "duration": "2.5"}, segments.Segment(problem=segments.SAMPLES)),
        ({"options": "start:9 stop:26000"}, segments.Segment(problem=segments.SAMPLES)),
    ],
)
def test_segments(row, segment):
    assert segments.read("a.tsv: line 2", row) == segment


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"start": "-1"}, "start is '-1', expected a number of seconds, 0 or more; fix the line"),
        ({"end": "nan"}, "end is 'nan', expected a number of seconds"),
        ({"duration": "inf"}, "duration is 'inf', expected"),
        ({"end": "9" * 400}, "end is '9*', expected"),
        ({"duration": "1,5"}, "duration is '1,5', expected"),
        (
            {"start": "1", "end": "3", "duration": "3"},
            "start 1, end 3 and duration 3 contradict each other: end must be start . duration",
        ),
        ({"channel": "left"}, r"channel is 'left', expected A, B or a number \(the first is 0\); fix the"),
        ({"channel": "-1"}, "channel is '-1', expected"),
    ],
)
def test_invalid_values_are_refused(row, message):
    with pytest.raises(errors.UserError, match=f"^a.tsv: line 2: {message}"):
        segments.read("a.tsv: line 2", row)
