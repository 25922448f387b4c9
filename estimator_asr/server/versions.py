"""The version that is served: newer ones are loaded beside it and take over without a dropped request.

A version may be being copied: it is loaded when two looks find the same files. One that does not load is
tried again when its files change. When the current version is removed, the newest that loads takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

from absl import logging

from estimator_asr.saved_model import recogniser
from estimator_asr.server import metrics, served_version, worker

POLL_SECONDS = 2.0
_LOG_SECONDS = 60
_Files = frozenset[tuple[str, int, int]]


class Versions:
    """The current version of an export directory.

    Attributes:
        current: the newest version that could be loaded, or the last one if none is left.
    """

    def __init__(self, saved_model: str, counters: metrics.Metrics):
        """Loads the newest version of an export directory, or one version, which is then never replaced.

        Raises:
            errors.UserError: there is none, or it is damaged.
        """
        self._path, self._metrics, self._loader = saved_model, counters, worker.Worker()
        version_dir = recogniser.find_version(saved_model)
        self._is_fixed = version_dir == saved_model
        self._seen: dict[str, _Files] = {}
        self._failed: dict[str, _Files] = {}
        self.current = served_version.ServedVersion(version_dir)
        counters.set_version(self.current.number)

    async def watch(self) -> None:
        """Looks for newer versions until it is cancelled."""
        while not self._is_fixed:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.refresh()
            except OSError as error:  # the disk may come back
                message = "%s: versions cannot be listed (%s); version %s is served on"
                values = self._path, error.strerror, self.current.number
                logging.log_every_n_seconds(logging.ERROR, message, _LOG_SECONDS, *values)

    async def refresh(self) -> None:
        """Loads the newest version that can be loaded, unless it is the current one."""
        for version_dir in self._list_newer():
            files = _list_files(version_dir)
            seen, self._seen[version_dir] = self._seen.get(version_dir), files
            if files != seen or files == self._failed.get(version_dir):
                continue
            if await self._load(version_dir):
                return
            self._failed[version_dir] = files

    def _list_newer(self) -> list[str]:
        """Returns the versions that are newer than the current one, all if that is removed, newest first."""
        numbers = reversed(recogniser.list_versions(self._path))
        found = [os.path.join(self._path, str(number)) for number in numbers]
        current = self.current.version_dir
        return found[: found.index(current)] if current in found else found

    async def _load(self, version_dir: str) -> bool:
        try:
            self._replace(await self._loader.call(served_version.ServedVersion, version_dir))
        except Exception as error:
            logging.error("%s; version %s is served on", error, self.current.number)
            return False
        return True

    def _replace(self, loaded: served_version.ServedVersion) -> None:
        old, self.current = self.current, loaded
        old.retire()
        self._metrics.set_version(loaded.number)
        logging.info("version %s is served, loaded in %.1f s", loaded.number, loaded.load_seconds)


def _list_files(version_dir: str) -> _Files:
    """Returns path, size and time of each file; those that go away meanwhile are left out."""
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(version_dir) for name in names]
    found = set()
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.stat(path)
            found.add((path, status.st_size, status.st_mtime_ns))
    return frozenset(found)
