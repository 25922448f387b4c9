import pytest

from tfrecord_builder.corpora import kaldi_commands


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("cat /a/b.wav", ("/a/b.wav", None)),
        ("flac -c -d -s a.flac", ("a.flac", None)),
        ("flac -cds 'my speech.flac'", ("my speech.flac", None)),
        ("flac --decode --stdout --totally-silent a.flac 2>/dev/null", ("a.flac", None)),
        ("sph2pipe -f wav a.sph", ("a.sph", None)),
        ("/kaldi/tools/sph2pipe_v2.5/sph2pipe -f wav -p -c 1 a.sph", ("a.sph", 0)),
        ("sph2pipe -f wav -p -c 2 a.sph", ("a.sph", 1)),
        ("sox a.mp3 -t wav -", ("a.mp3", None)),
        ("sox -t mp3 a -t wav -r 16k -b16 -c 1 -e signed-integer -", ("a", None)),
        ("ffmpeg -nostdin -v error -i a.m4a -f wav -ar 16000 -ac 1 -acodec pcm_s16le -", ("a.m4a", None)),
        ("ffmpeg -i a.mp3 -f wav pipe:1", ("a.mp3", None)),
    ],
)
def test_commands_that_only_decode(command, found):
    assert kaldi_commands.find_file(command) == found


@pytest.mark.parametrize(
    "command",
    [
        "",
        "cat",
        "cat a.wav b.wav",
        "cat a.wav ''",
        "cat -",
        "cat a.wav | sox -t wav - -t wav - vol 0.1",
        "cat a.wav; rm b.wav",
        "cat $HOME/a.wav",
        "cat 'a.wav",
        "flac -c a.wav",  # encodes instead of decoding
        "flac -c -d --skip=10 a.flac",
        "sph2pipe -f wav -t 1:2 a.sph",
        "sph2pipe -f wav -c 3 a.sph",
        "sph2pipe -f raw a.sph",
        "sox a.wav -t wav - vol 0.1",
        "sox a.wav -t wav - speed 1.1",
        "sox -v 0.5 a.wav -t wav -",
        "sox -r 16000 -b16 -c 1 --null -t wav - synth 174160s sine 300-3300",
        "sox a.wav b.wav",
        "sox '' -",
        "ffmpeg -ss 1 -i a.mp3 -f wav -",
        "ffmpeg -i a.mp3 -af volume=2 -f wav -",
        "ffmpeg -i a.mp3 b.wav",
        "ffmpeg b.wav -i pipe:",
        "ffmpeg -i a.wav -i b.wav -f wav -",
        "ffmpeg -f wav -i",
        "wav-reverberate --shift-output=true a.wav -",
    ],
)
def test_other_commands_are_not_accepted(command):
    assert kaldi_commands.find_file(command) is None
