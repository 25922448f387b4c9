"""Writes recordings to a directory, and lets Lhotse write manifests of them, for test_lhotse_itself.

cuts/cuts_train.jsonl.gz, list/cuts.json                     the same cuts
pairs/x_{recordings,supervisions}_{train,dev}.jsonl.gz       train at 0.9 times the speed
audio.npz                    samples that Lhotse loads for each accepted utterance: the mean of its channels
"""

import os
import sys

import lhotse
import numpy as np
import soundfile

RATE = 16000


def write_recording(directory: str, name: str, num_channels: int) -> lhotse.Recording:
    """Writes four seconds of sound that differs between any two moments and any two channels."""
    time = np.arange(4 * RATE) / RATE
    channels = [np.sin(2 * np.pi * (300 * (i + 1) * time + 200 * time**2)) for i in range(num_channels)]
    path = os.path.join(directory, f"{name}.wav")
    soundfile.write(path, 0.3 * np.stack(channels, axis=1), RATE)
    return lhotse.Recording.from_file(path, recording_id=name)


def speak(name: str, recording: lhotse.Recording, start=0.0, duration=4.0, channel=0, text="你好"):
    return lhotse.SupervisionSegment(name, recording.id, start, duration, channel, text, speaker="s1")


def make_cut(name: str, recording: lhotse.Recording, *supervisions, **changes):
    fields = {"start": 0.0, "duration": 4.0, "channel": 0, **changes}
    kind = lhotse.MultiCut if isinstance(fields["channel"], list) else lhotse.MonoCut
    supervisions = supervisions or [speak(f"{name}-s", recording, 0.0, fields["duration"], fields["channel"])]
    return kind(name, recording=recording, supervisions=list(supervisions), **fields)


def make_piped(command: str) -> lhotse.Recording:
    return lhotse.Recording("c", [lhotse.AudioSource("command", [0], command)], RATE, 4 * RATE, 4.0, [0])


def load(cut) -> np.ndarray:
    return cut.load_audio().mean(axis=0)


def make_cuts(mono, stereo, three):
    """Returns the cuts, and the samples of the utterances that the builder must accept."""
    plain = make_cut("plain", mono, start=0.5, duration=2.0)
    read = {
        each.id: each
        for each in (
            plain,
            make_cut("right", stereo, channel=1),
            make_cut("both", stereo, channel=[0, 1]),
            plain.perturb_speed(0.9),
            plain.perturb_volume(0.125),
            plain.perturb_speed(1.1).perturb_volume(2.0).with_id("fast-loud"),
        )
    }
    samples = {name: load(cut) for name, cut in read.items()}
    part = make_cut("part", mono, speak("part-s", mono, 0.25, 1.5), start=1.0, duration=2.0)
    slow_part = part.perturb_speed(0.9).with_id("slow-part")
    turns = make_cut("turns", mono, speak("x", mono, 0.0, 1.0), speak("y", mono, 0.5, 2.5, text="谢谢"))
    sides = make_cut(
        "sides", stereo, speak("l", stereo, 0.0, 1.0, [0]), speak("r", stereo, 1.0, 2.0, [1]), channel=[0, 1]
    )
    for cut in (part, slow_part, turns, sides):
        for trimmed in cut.trim_to_supervisions(keep_overlapping=False):
            name = f"{cut.id}-{trimmed.id}" if len(cut.supervisions) > 1 else cut.id
            samples[name] = load(trimmed)
    padded = plain.pad(duration=3.0, direction="both").with_id("padded")
    samples["padded"] = load(padded)[RATE // 2 : -RATE // 2]
    low = plain.resample(8000).with_id("low")
    samples["low"] = load(plain)  # Lhotse would need torchaudio to load the resampled cut
    path = mono.sources[0].source
    piped = make_cut("piped", make_piped(f"cat {path}"), start=1.0, duration=2.0)
    samples["piped"] = load(piped)
    rejected = [
        plain.mix(part, snr=10.0).with_id("mixed"),
        plain.perturb_tempo(0.9).with_id("tempo"),
        plain.reverb_rir().with_id("room"),
        make_cut("some", three, channel=[0, 2]),
        make_cut("command", make_piped(f"cat {path} | cat")),
        plain.truncate(offset=0.5, duration=1.0).with_id("half"),
    ]
    cuts = lhotse.CutSet.from_cuts(
        [*read.values(), part, slow_part, turns, sides, padded, low, piped, *rejected]
    )
    return cuts, samples


def main(directory: str) -> None:
    for name in ("wav", "cuts", "list", "pairs"):
        os.makedirs(os.path.join(directory, name))
    wav_dir = os.path.join(directory, "wav")
    mono, stereo, three = (write_recording(wav_dir, name, i) for i, name in enumerate(("m", "s", "t"), 1))
    cuts, samples = make_cuts(mono, stereo, three)
    cuts.to_file(os.path.join(directory, "cuts", "cuts_train.jsonl.gz"))
    cuts.to_file(os.path.join(directory, "list", "cuts.json"))
    spoken = [
        speak("m-1", mono, 0.5, 1.0),
        speak("s-1", stereo, 1.0, 3.0, 1),
        speak("s-2", stereo, 0.0, 4.0, [0, 1]),
    ]
    slow = lhotse.RecordingSet.from_recordings([mono, stereo]).perturb_speed(0.9)
    for split, recordings in (("train", slow), ("dev", lhotse.RecordingSet.from_recordings([mono, stereo]))):
        supervisions = lhotse.SupervisionSet.from_segments(spoken)
        if split == "train":
            supervisions = lhotse.SupervisionSet.from_segments(s.perturb_speed(0.9, RATE) for s in spoken)
        recordings.to_file(os.path.join(directory, "pairs", f"x_recordings_{split}.jsonl.gz"))
        supervisions.to_file(os.path.join(directory, "pairs", f"x_supervisions_{split}.jsonl.gz"))
        for each in supervisions:
            audio = recordings[each.recording_id].load_audio(each.channel, each.start, each.duration)
            samples[each.id] = audio.mean(axis=0)
    np.savez(os.path.join(directory, "audio.npz"), **samples)


if __name__ == "__main__":
    main(sys.argv[1])
