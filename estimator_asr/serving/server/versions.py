"""Keeps the newest version of an export loaded; no requests are dropped when a newer one takes over.

A new version may still be incomplete, so it is loaded only once two successive polls find the same files. A
version that fails to load is tried again when its files change. If the current version is removed, the newest
version that can be loaded takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from concurrent import futures

from absl import logging

from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.server import metrics, served_version

POLL_SECONDS = 2.0
_LOG_SECONDS = 60
_Files = frozenset[tuple[str, int, int]]


class Versions:
    """Keeps the newest version in an export directory loaded."""

    def __init__(self, saved_model: str, counters: metrics.Metrics):
        """Loads the newest version in an export directory, or a single version, which is never replaced.

        Raises errors.UserError if there is no version, or the version is damaged.
        """
        self._path, self._metrics, self._loader = saved_model, counters, futures.ThreadPoolExecutor(1)
        version_dir = recogniser.find_version(saved_model)
        self._is_fixed = version_dir == saved_model
        self._seen: dict[str, _Files] = {}
        self._failed: dict[str, _Files] = {}
        # The newest version that could be loaded or, if all versions are removed, the one served last.
        self.current = served_version.ServedVersion(version_dir)
        counters.version.set(float(self.current.number or 0))

    async def watch(self) -> None:
        """Looks for newer versions until the task is cancelled."""
        while not self._is_fixed:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.refresh()
            except OSError as error:  # the disk may become available again
                message = "%s: cannot list the versions (%s); still serving version %s"
                values = self._path, error.strerror, self.current.number
                logging.log_every_n_seconds(logging.ERROR, message, _LOG_SECONDS, *values)

    async def refresh(self) -> None:
        """Loads the newest version that can be loaded, unless it is the current one."""
        for version_dir in self._list_newer():
            files = _list_files(version_dir)
            previous, self._seen[version_dir] = self._seen.get(version_dir), files
            if files != previous or files == self._failed.get(version_dir):
                continue
            if await self._load(version_dir):
                return
            self._failed[version_dir] = files

    def _list_newer(self) -> list[str]:
        """Returns newer versions, newest first; if the current version was removed, returns all versions."""
        numbers = reversed(recogniser.list_versions(self._path))
        version_dirs = [os.path.join(self._path, str(number)) for number in numbers]
        current = self.current.version_dir
        return version_dirs[: version_dirs.index(current)] if current in version_dirs else version_dirs

    async def _load(self, version_dir: str) -> bool:
        loop = asyncio.get_running_loop()
        try:
            loaded = await loop.run_in_executor(self._loader, served_version.ServedVersion, version_dir)
        except Exception as error:
            logging.error("%s; still serving version %s", error, self.current.number)
            return False
        old, self.current = self.current, loaded
        old.retire()
        self._metrics.version.set(float(loaded.number or 0))
        logging.info("now serving version %s, loaded in %.1f s", loaded.number, loaded.load_seconds)
        return True


def _list_files(version_dir: str) -> _Files:
    """Returns the path, size and modification time of each file; skips files that have disappeared."""
    files = set()
    for parent, _, names in os.walk(version_dir):
        for path in (os.path.join(parent, name) for name in names):
            with contextlib.suppress(OSError):
                status = os.stat(path)
                files.add((path, status.st_size, status.st_mtime_ns))
    return frozenset(files)
