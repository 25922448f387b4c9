"""Is a file what its publisher says it is? What is not is put aside, so that it never passes for whole."""

from __future__ import annotations

import hashlib
import os
import sys

import tqdm

from tfrecord_builder import errors


def check_md5(path: str, md5: str, aside: str) -> None:
    """Passes if the file has the sum.

    Args:
      path: the file.
      md5: its sum in hexadecimal digits.
      aside: what to rename the file to if it has another one.

    Raises:
      UserError: with both sums.
    """
    found = _sum(path)
    if found != md5:
        os.replace(path, aside)
        raise errors.UserError(
            f"{aside}: its MD5 sum is {found}, expected {md5}; it was put aside under this name, "
            "call again to download it afresh, from another --mirror if it was no accident."
        )


def _sum(path: str) -> str:
    # The publisher's sums are MD5: they find accidents, which is what they are for.
    digest = hashlib.md5(usedforsecurity=False)
    name, quiet = os.path.basename(path), not sys.stderr.isatty()
    with (
        open(path, "rb") as file,
        tqdm.tqdm(
            desc=f"checking {name}", total=os.path.getsize(path), unit="B", unit_scale=True, disable=quiet
        ) as bar,
    ):
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            bar.update(len(chunk))
    return digest.hexdigest()
