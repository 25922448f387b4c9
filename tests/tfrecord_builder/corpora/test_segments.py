import pytest

from tfrecord_builder import errors
from tfrecord_builder.corpora import segments


@pytest.mark.parametrize(
    ("row", "span"),
    [
        ({}, segments.Span()),
        ({"start": "", "end": " ", "duration": "", "channel": ""}, segments.Span()),
        ({"start": "0.5", "end": "2.0"}, segments.Span(0.5, 1.5)),
        ({"start": "0.5", "duration": "1.5"}, segments.Span(0.5, 1.5)),
        ({"start": " 0.5 "}, segments.Span(0.5)),
        ({"end": "2"}, segments.Span(0.0, 2.0)),
        ({"duration": "2e0"}, segments.Span(0.0, 2.0)),
        ({"start": "1", "end": "2.5", "duration": "1.5"}, segments.Span(1.0, 1.5)),
        ({"start": "1", "end": "2.5", "duration": "1.46"}, segments.Span(1.0, 1.5)),  # rounded
        ({"channel": "1"}, segments.Span(channel=1)),
        ({"channel": "A"}, segments.Span(channel=0)),
        ({"channel": "b"}, segments.Span(channel=1)),
        ({"start": "2", "end": "2"}, segments.Span(problem=segments.EMPTY)),
        ({"start": "2", "end": "1", "channel": "0"}, segments.Span(channel=0, problem=segments.EMPTY)),
        ({"duration": "0"}, segments.Span(problem=segments.EMPTY)),
        ({"seconds": "9", "note": "x"}, segments.Span()),
    ],
)
def test_a_row_says_which_part_of_the_recording_it_is(row, span):
    assert segments.read("a.tsv: line 2", row) == span


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"start": "-1"},
            "a.tsv: line 2: start is '-1', expected a number of seconds, 0 or more; fix the line",
        ),
        ({"end": "nan"}, "end is 'nan', expected a number of seconds"),
        ({"duration": "inf"}, "duration is 'inf', expected"),
        ({"duration": "1,5"}, "duration is '1,5', expected"),
        (
            {"start": "1", "end": "3", "duration": "3"},
            "line 2: start 1, end 3 and duration 3 contradict each other, expected end = start . duration",
        ),
        ({"channel": "left"}, "line 2: channel is 'left', expected a number from 0 .*, A or B; fix the line"),
        ({"channel": "-1"}, "channel is '-1', expected"),
    ],
)
def test_rows_that_contradict_themselves_are_refused(row, message):
    with pytest.raises(errors.UserError, match=message):
        segments.read("a.tsv: line 2", row)
