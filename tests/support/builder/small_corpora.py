"""Makes corpora of a few seconds, some in the layouts of published corpora, for tests of the builder."""

import os

import numpy as np
import soundfile

from tfrecord_builder.labels import labelling, vocabularies

SAMPLE_RATE = 16000


def tone(seconds: float, hz: float = 440.0, level: float = 0.3, sample_rate: int = SAMPLE_RATE) -> np.ndarray:
    """Returns a sine wave, float32 [num_samples]."""
    times = np.arange(int(seconds * sample_rate)) / sample_rate
    return (level * np.sin(2 * np.pi * hz * times)).astype(np.float32)


def write_audio(path, samples, sample_rate: int = SAMPLE_RATE, **options) -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    soundfile.write(path, samples, sample_rate, **options)
    return str(path)


def write_text(path, content: str) -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(content)
    return str(path)


def make_vocabularies(*training: labelling.Labels) -> vocabularies.Vocabularies:
    """Returns the vocabularies of a train split with these labels."""
    collector = vocabularies.Collector(labelling.LabelConfig())
    for found in training:
        collector.add(found, "train")
    return vocabularies.make(collector, vocabularies.VocabularyConfig())


SENTENCES = ("一下", "你好", "今天天气很好", "北京", "谢谢")


def make_manifest_corpus(directory, num_train: int = 6, num_dev: int = 2, prefix: str = "u") -> str:
    """Writes half-second tones; the transcripts are SENTENCES in turn, and the speakers a and b alternate."""
    lines = ["id\taudio\tspeaker\ttext\tpinyin\tsplit"]
    for i in range(num_train + num_dev):
        name = f"{prefix}{i:02d}"
        write_audio(os.path.join(directory, "audio", f"{name}.wav"), tone(0.5, 200 + 50 * i))
        split = "train" if i < num_train else "dev"
        lines.append(f"{name}\taudio/{name}.wav\t{'ab'[i % 2]}\t{SENTENCES[i % 5]}\t\t{split}")
    write_text(os.path.join(directory, "manifest.tsv"), "\n".join(lines) + "\n")
    return str(directory)


def make_text_corpus(directory) -> str:
    """Writes three sentences in train and one in dev."""
    train = "hanzi\tpinyin\n你好\tni3 hao3\n谢谢\txie4 xie5\n好\thao4\n"
    write_text(os.path.join(directory, "train.tsv"), train)
    write_text(os.path.join(directory, "dev.tsv"), "hanzi\tpinyin\n你谢\tni3 xie4\n")
    return str(directory)


def make_punctuated_corpus(directory) -> str:
    """Writes ten paragraphs in train and two in dev; the last one of each has no final punctuation mark."""
    sentences = [f"“第{number}次，我很高兴！”他说：真的吗？是的。" for number in "一二三四五六七八"]
    paragraphs = "\n".join([*sentences, "标题", "很好，我喜欢"])
    write_text(os.path.join(directory, "train.txt"), f"{paragraphs}\n")
    write_text(os.path.join(directory, "dev.txt"), "2只，是的。\n第3次，我很高兴\n")
    return str(directory)


def make_thchs30_corpus(directory) -> str:
    """Writes A11_0 (train), B6_250 (dev) and D4_750 (test)."""
    names = {"train": "A11_0", "dev": "B6_250", "test": "D4_750"}
    for split, name in names.items():
        write_audio(os.path.join(directory, "data", f"{name}.wav"), tone(0.5))
        transcript = "绿 是 阳春\nlv4 shi4 yang2 chun1\nl v4 sh ix4 ii iang2 ch un1\n"
        write_text(os.path.join(directory, "data", f"{name}.wav.trn"), transcript)
        write_text(os.path.join(directory, split, f"{name}.wav.trn"), f"../data/{name}.wav.trn\n")
    return str(directory)


def make_aishell1_corpus(directory) -> str:
    """Writes one recording per split; the one in test has no transcript."""
    names = {"train": ("S0002", "W0122"), "dev": ("S0724", "W0121"), "test": ("S0764", "W0121")}
    for split, (speaker, number) in names.items():
        write_audio(os.path.join(directory, "wav", split, speaker, f"BAC009{speaker}{number}.wav"), tone(0.5))
    transcript = "BAC009S0002W0122 而 对 楼市\nBAC009S0724W0121 广州市\nBAC009S9999W0001 没有 录音\n"
    write_text(os.path.join(directory, "transcript", "aishell_transcript_v0.8.txt"), transcript)
    return str(directory)
