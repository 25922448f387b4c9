"""Debian's libpinyin, libime and libgooglepinyin: syllables to the sentence that each proposes first.

Each starts as on the day of its installation: what it learns from a user is empty.
"""

import ctypes
import dataclasses
import glob
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence

from tfrecord_builder import errors

Convert = Callable[[Sequence[str]], str]

MAX_LETTERS = 39  # limit of libgooglepinyin (dictdef.h: 40 search steps), which ignores further letters
_OVERLAP = 4  # syllables
_LIBPINYIN_OPTIONS = 1 << 1 | 1 << 5  # IS_PINYIN and USE_TONE of pinyin_custom2.h


@dataclasses.dataclass(frozen=True)
class InputMethod:
    """An input method.

    Attributes:
        packages: for each Debian package that it needs, a pattern of one of its files.
        open: takes those files, in that order, and a scratch directory; returns a function from toned
            syllables (ni3 hao3) to hanzi.
    """

    packages: Mapping[str, str]
    open: Callable[[Sequence[str], str], Convert]

    def find_files(self) -> list[str]:
        """Returns a file of each package.

        Raises:
            errors.UserError: packages are not installed.
        """
        found = {package: sorted(glob.glob(pattern)) for package, pattern in self.packages.items()}
        missing = [package for package, files in found.items() if not files]
        if missing:
            raise errors.UserError(
                f"not installed: {', '.join(missing)} of Debian; run apt-get install {' '.join(missing)}."
            )
        return [files[0] for files in found.values()]


def spell(syllable: str) -> str:
    """Returns a syllable with v for ü, also where its spelling omits the dots: lv4, lve4 (lue4), ju2."""
    return re.sub("^([ln])ue", r"\1ve", syllable.replace("u:", "v").replace("ü", "v"))


def remove_tone(syllable: str) -> str:
    return syllable.rstrip("12345")


def open_libpinyin(files: Sequence[str], directory: str) -> Convert:
    """Opens libpinyin, which is given the tones."""
    library = _load_libpinyin()
    open(os.path.join(directory, "user.conf"), "w").close()  # it complains if there is none
    context = library.pinyin_init(files[1].encode(), directory.encode())
    library.pinyin_set_options(context, _LIBPINYIN_OPTIONS)
    instance = library.pinyin_alloc_instance(context)

    def convert(syllables):
        library.pinyin_parse_more_full_pinyins(instance, "".join(map(spell, syllables)).encode())
        library.pinyin_guess_sentence(instance)
        sentence = ctypes.c_char_p()
        library.pinyin_get_sentence(instance, 0, ctypes.byref(sentence))
        library.pinyin_reset(instance)
        return (sentence.value or b"").decode()

    return convert


def _load_libpinyin() -> ctypes.CDLL:
    library = ctypes.CDLL("libpinyin.so.15")
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    library.pinyin_init.restype = library.pinyin_alloc_instance.restype = pointer
    library.pinyin_init.argtypes = [text, text]
    library.pinyin_set_options.argtypes = [pointer, ctypes.c_uint32]
    library.pinyin_parse_more_full_pinyins.argtypes = [pointer, text]
    library.pinyin_get_sentence.argtypes = [pointer, ctypes.c_uint8, ctypes.POINTER(text)]
    for name in ("alloc_instance", "guess_sentence", "reset"):
        getattr(library, f"pinyin_{name}").argtypes = [pointer]
    return library


def open_libime(files: Sequence[str], directory: str) -> Convert:
    """Compiles input_methods.cc and starts it; each syllable is separated from the next."""
    compiler, headers, _, _, fcitx_headers, dictionary, words = files
    program = os.path.join(directory, "input_methods")
    source = os.path.join(os.path.dirname(__file__), "input_methods.cc")
    libraries = ["-lIMEPinyin", "-lIMECore", "-lFcitx5Utils"]
    includes = [f"-I{headers}/../..", f"-I{fcitx_headers}"]
    subprocess.run([compiler, "-std=c++17", *includes, source, "-o", program, *libraries], check=True)
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1)
    process = subprocess.Popen([program, dictionary, words], **pipes)

    def convert(syllables):
        print("'".join(remove_tone(spell(syllable)) for syllable in syllables), file=process.stdin)
        sentence = process.stdout.readline()
        if not sentence:
            raise subprocess.CalledProcessError(process.wait(), program)
        return sentence.rstrip("\n")

    return convert


def open_libgooglepinyin(files: Sequence[str], directory: str) -> Convert:
    """Opens libgooglepinyin; see convert_in_parts."""
    library = ctypes.CDLL("libgooglepinyin.so.0")
    library.im_search.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.im_get_candidate.argtypes = [ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
    library.im_open_decoder(files[0].encode(), os.path.join(directory, "googlepinyin.user").encode())

    def propose(letters):
        hanzi = (ctypes.c_uint16 * (MAX_LETTERS + 1))()
        library.im_reset_search()
        library.im_search(letters.encode(), len(letters))
        library.im_get_candidate(0, hanzi, len(hanzi))
        return bytes(hanzi).decode("utf-16-le").partition("\0")[0]

    return lambda syllables: convert_in_parts(syllables, propose)


def convert_in_parts(syllables: Sequence[str], propose: Callable[[str], str]) -> str:
    """Converts a sentence of any length by a function that takes MAX_LETTERS letters.

    Each part repeats the last four syllables before it, whose hanzi stay, and the last four hanzi that are
    proposed for a part are left to the next one: words at the joins have context on both sides.

    Args:
        syllables: toned.
        propose: returns the hanzi of toneless pinyin; a hanzi that is missing becomes a space.
    """
    spelled = [re.sub("^([ln])ve", r"\1ue", remove_tone(spell(syllable))) for syllable in syllables]
    sentence = ""
    while len(sentence) < len(spelled):
        start = max(0, len(sentence) - _OVERLAP)
        part = _find_longest(spelled[start:])
        proposed = propose(join(part)).ljust(len(part))[len(sentence) - start : len(part)]
        is_last = start + len(part) == len(spelled)
        sentence += proposed if is_last else proposed[: max(1, len(proposed) - _OVERLAP)]
    return sentence


def _find_longest(syllables):
    count = 1
    while count < len(syllables) and len(join(syllables[: count + 1])) <= MAX_LETTERS:
        count += 1
    return syllables[:count]


def join(syllables: Sequence[str]) -> str:
    """Joins syllables, with ' where they could be read as others: xi'an, fan'gan (fang an), e'ren (er en)."""
    return syllables[0] + "".join(
        f"'{syllable}" if re.match("[gnr]?[aeo]", syllable) else syllable for syllable in syllables[1:]
    )


INPUT_METHODS = {
    "libpinyin": InputMethod(
        {"libpinyin15": "/usr/lib/*/libpinyin.so.15", "libpinyin-data": "/usr/lib/*/libpinyin/data"},
        open_libpinyin,
    ),
    "libime": InputMethod(
        {
            "g++": "/usr/bin/g++",
            "libimepinyin-dev": "/usr/include/LibIME/libime/pinyin",
            "libimecore-dev": "/usr/include/LibIME/libime/core",
            "libboost-dev": "/usr/include/boost",
            "libfcitx5utils-dev": "/usr/include/Fcitx5/Utils",
            "libime-data": "/usr/share/libime/sc.dict",
            "libime-data-language-model": "/usr/lib/*/libime/zh_CN.lm",
        },
        open_libime,
    ),
    "libgooglepinyin": InputMethod(
        {"libgooglepinyin0": "/usr/lib/*/googlepinyin/data/dict_pinyin.dat"}, open_libgooglepinyin
    ),
}
