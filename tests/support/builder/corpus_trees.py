"""Makes tiny corpora in the layouts of published corpora and formats; each recording is a one-second tone."""

import gzip
import io
import json
import os
import tarfile

import numpy as np
import small_corpora


def tree(directory, texts: dict[str, str], recordings: tuple[str, ...]) -> str:
    """Writes text files ({path: content}) and one-second tones to paths below a directory."""
    for path, content in texts.items():
        small_corpora.write_text(os.path.join(directory, path), content)
    for path in recordings:
        small_corpora.write_audio(os.path.join(directory, path), small_corpora.tone(1.0))
    return str(directory)


def make_aishell3_corpus(directory) -> str:
    """Writes two recordings to train and one to test, each with its transcript."""
    texts = {
        "train/content.txt": "SSB00050001.wav\t广 guang3 州 zhou1\nSSB00050002.wav\t一 yi1 点儿 dianr3\n",
        "test/content.txt": "SSB06930002.wav\t武 wu3 术 shu4 \n",
        "spk-info.txt": "SSB0005\tB\tfemale\tnorth\n",
    }
    recordings = (
        "train/wav/SSB0005/SSB00050001.wav",
        "train/wav/SSB0005/SSB00050002.wav",
        "test/wav/SSB0693/SSB06930002.wav",
    )
    return tree(directory, texts, recordings)


def make_st_cmds_corpus(directory) -> str:
    """Writes two utterances, a recording without a transcript, and a transcript without a recording."""
    texts = {
        "20170001P00001A0001.txt": "你好",
        "20170001P00001A0001.metadata": "SBH\t0101",
        "20170001P00001I0001.txt": "今天 天气很好\r\n",
        "20170001P00003A0001.txt": "没有录音",
        "README.txt": "ST-CMDS",
    }
    names = ("20170001P00001A0001", "20170001P00001I0001", "20170001P00002A0001")
    return tree(directory, texts, tuple(f"{name}.wav" for name in names))


def make_primewords_corpus(directory) -> str:
    """Writes three entries (two for one recording, one for a missing recording) and an unlisted recording."""
    entries = [
        {"id": "1", "user_id": "7", "file": "00a1ca32.wav", "length": "1.0", "text": "你好 谢谢"},
        {"id": "2", "user_id": "8", "file": "00a1ca32.wav", "length": "1.0", "text": "另一句"},
        {"id": "3", "user_id": "9", "file": "0eb1f442.wav", "length": "1.0", "text": "没有录音"},
    ]
    recordings = ("audio_files/0/00/00a1ca32.wav", "audio_files/5/57/5732d955.wav")
    return tree(directory, {"set1_transcript.json": json.dumps(entries)}, recordings)


def make_aidatatang_200zh_corpus(directory) -> str:
    """Writes one recording per split, and two transcripts without a recording, one by a known speaker."""
    transcript = (
        "T0055G0013S0001 以后 你 是 男孩子\nT0055G0002S0001 看看 我 的 日程表\nT0055G0036S0001 谢谢\n"
        "T0055G0002S0002 没有 录音\nT0055G9999S0001 没有 人\n"
    )
    recordings = (
        "corpus/train/G0013/T0055G0013S0001.wav",
        "corpus/dev/G0002/T0055G0002S0001.wav",
        "corpus/test/G0036/T0055G0036S0001.wav",
    )
    return tree(directory, {"transcript/aidatatang_200_zh_transcript.txt": transcript}, recordings)


def make_magicdata_corpus(directory) -> str:
    """Writes one recording per split, one without a transcript, and a transcript without a recording."""
    header = "UtteranceID\tSpeakerID\tTranscription\n"
    texts = {
        "train/TRANS.txt": f"{header}38_5716_01.wav\t38_5716\t嗨天气寒冷记得添衣保暖哦\n",
        "dev/TRANS.txt": f"{header}5_1812_01.wav\t5_1812\t[FIL]你好\n5_1812_02.wav\t5_1812\t没有录音\n",
        "test/TRANS.txt": f"{header}15_2222_01.wav\t15_2222\t谢谢\n",
    }
    recordings = (
        "train/38_5716/38_5716_01.wav",
        "train/38_5716/38_5716_02.wav",
        "dev/5_1812/5_1812_01.wav",
        "test/15_2222/15_2222_01.wav",
    )
    return tree(directory, texts, recordings)


def make_common_voice_corpus(directory) -> str:
    """Writes one clip per split: WAV files with names that end in .mp3, because only the content matters."""
    header = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\tlocale\n"
    row = "{}\tcommon_voice_zh-CN_{}.mp3\t{}\t2\t0\t\t\tzh-CN\n"
    texts = {
        "train.tsv": header + row.format("9f3c", "18524189", '"包应登，字稺升。'),
        "dev.tsv": header + row.format("0b1d", "18531538", "你好"),
        "test.tsv": header + row.format("77aa", "33655758", "谢谢"),
        "validated.tsv": header,
    }
    directory = tree(directory, texts, ())
    for number in ("18524189", "18531538", "33655758"):
        path = os.path.join(directory, "clips", f"common_voice_zh-CN_{number}.mp3")
        small_corpora.write_audio(path, small_corpora.tone(1.0), format="WAV")
    return directory


def make_librispeech_corpus(directory) -> str:
    """Writes one chapter per split; in train, one recording and one transcript have no counterpart."""
    texts = {
        "train-clean-100/103/1240/103-1240.trans.txt": (
            "103-1240-0000 CHAPTER ONE\n103-1240-0001 THAT HAD ITS SOURCE\n"
        ),
        "dev-clean/84/121123/84-121123.trans.txt": "84-121123-0000 GO DO YOU HEAR\n",
        "test-other/367/130732/367-130732.trans.txt": "367-130732-0000 LOBSTERS AND LOBSTERS\n",
        "README.TXT": "LibriSpeech",
    }
    recordings = (
        "train-clean-100/103/1240/103-1240-0000.flac",
        "train-clean-100/103/1240/103-1240-0002.flac",
        "dev-clean/84/121123/84-121123-0000.flac",
        "test-other/367/130732/367-130732-0000.flac",
    )
    return tree(directory, texts, recordings)


def make_ljspeech_corpus(directory) -> str:
    """Writes two recordings, the second without a normalised transcript."""
    lines = [
        'LJ001-0007|"printed", about 1455,|"printed", about fourteen fifty-five,',
        "LJ001-0008|has never been surpassed.|",
    ]
    recordings = ("wavs/LJ001-0007.wav", "wavs/LJ001-0008.wav")
    return tree(directory, {"metadata.csv": "\n".join(lines) + "\n"}, recordings)


def make_kaldi_corpus(directory) -> str:
    """Writes the data directories train (segments of a stereo recording) and dev (whole recordings)."""
    wav_dir = os.path.join(directory, "wav")
    texts = {
        "train/wav.scp": f"sw1 {wav_dir}/sw1.wav\n",
        "train/segments": "s1-1 sw1 0.00 0.50\ns1-2 sw1 0.50 -1\ns2-1 sw1 0.25 0.75 1\n",
        "train/text": "s1-1 HI UM YEAH\ns1-2 你好\ns2-1 谢谢\n",
        "train/utt2spk": "s1-1 s1\ns1-2 s1\ns2-1 s2\n",
        "dev/wav.scp": f"d1 {wav_dir}/d1.wav\nd2 ../wav/d2.wav\n",
        "dev/text": "d1 好\nd3 没有 录音\n",
        "dev/utt2spk": "d1 s3\nd2 s3\nd3 s4\n",
    }
    left, right = small_corpora.tone(1.0), small_corpora.tone(1.0, 300.0)
    small_corpora.write_audio(os.path.join(wav_dir, "sw1.wav"), np.stack([left, right], axis=1))
    return tree(directory, texts, ("wav/d1.wav", "wav/d2.wav"))


def make_nemo_corpus(directory) -> str:
    """Writes train_manifest.json with a whole recording and a segment, and dev.jsonl with one recording."""
    train = [
        {"audio_filepath": "wav/a.wav", "duration": 1.0, "text": "今天天气很好"},
        {"audio_filepath": "wav/b.wav", "duration": 0.5, "offset": 0.25, "text": "你好", "speaker": "s1"},
    ]
    dev = [
        {"audio_filepath": "wav/c.wav", "duration": 1.0, "text": "谢谢", "pinyin": "xie4 xie5", "speaker": 2}
    ]
    texts = {"train_manifest.json": to_lines(train), "dev.jsonl": to_lines(dev)}
    return tree(directory, texts, ("wav/a.wav", "wav/b.wav", "wav/c.wav"))


def make_cut(**changes) -> dict:
    """Returns a MonoCut of a.wav as Lhotse writes it."""
    sources = [{"type": "file", "channels": [0], "source": "wav/a.wav"}]
    recording = {"id": "a", "sources": sources, "sampling_rate": 16000, "num_samples": 16000, "duration": 1.0}
    supervision = {
        "id": "a",
        "recording_id": "a",
        "start": 0.0,
        "duration": 0.5,
        "text": "你好",
        "speaker": "s1",
    }
    cut = {"id": "a-0", "start": 0.25, "duration": 0.5, "channel": 0, "supervisions": [supervision]}
    return {**cut, "recording": recording, "custom": {"dataloading_info": {}}, "type": "MonoCut", **changes}


def make_lhotse_corpus(directory) -> str:
    """Writes aishell_cuts_train.jsonl.gz and dev.jsonl.gz, with one cut each."""
    write_gzip(os.path.join(directory, "aishell_cuts_train.jsonl.gz"), to_lines([make_cut()]))
    write_gzip(os.path.join(directory, "dev.jsonl.gz"), to_lines([make_cut(id="b-0", supervisions=[])]))
    return tree(directory, {"aishell_recordings_train.jsonl": "{}\n"}, ("wav/a.wav",))


def make_table_corpus(directory) -> str:
    """Writes train.csv, which has quoted fields, and dev.tsv, which has other column names and no ids."""
    texts = {
        "train.csv": 'id,audio,text,speaker\nu1,wav/u1.wav,"今天,好",s1\nu2,wav/u2.wav,"他说""好""",s2\n',
        "dev.tsv": 'client_id\tpath\tsentence\tpinyin\tage\ns3\twav/u3.wav\t"你好\tni3 hao3\t20\n',
    }
    return tree(directory, texts, ("wav/u1.wav", "wav/u2.wav", "wav/u3.wav"))


def make_wenet_corpus(directory) -> str:
    """Writes train/data.list of type raw, with a segment, and dev/data.list of type shard."""
    raw = [
        {"key": "a", "wav": "../wav/a.wav", "txt": "今天", "speaker": "s1"},
        {"key": "a-1", "wav": "../wav/a.wav", "txt": "你好", "start": 0.25, "end": 0.75},
    ]
    texts = {"train/data.list": to_lines(raw), "dev/data.list": "../shards/shards_000000000.tar\n"}
    tree(directory, texts, ("wav/a.wav", "wav/b.wav"))
    os.makedirs(os.path.join(directory, "shards"), exist_ok=True)
    with tarfile.open(os.path.join(directory, "shards", "shards_000000000.tar"), "w") as shard:
        text = tarfile.TarInfo("b.txt")
        content = "广州市".encode()
        text.size = len(content)
        shard.addfile(text, io.BytesIO(content))
        shard.add(os.path.join(directory, "wav", "b.wav"), "b.wav")
    return str(directory)


def to_lines(objects) -> str:
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects)


def write_gzip(path, content: str) -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(content)
    return str(path)
