"""The version that is served: newer ones are loaded beside it and take over without a dropped request."""

from __future__ import annotations

import asyncio
import os

from absl import logging

from estimator_asr.server import metrics, served_version, worker
from estimator_asr.serving import recogniser
from tfrecord_builder import errors

POLL_SECONDS = 2.0


class Versions:
    """The current version of an export directory.

    Attributes:
        current: the newest version that could be loaded.
    """

    def __init__(self, saved_model: str, counters: metrics.Metrics):
        """Loads the newest version of an export directory, or one version, which is then never replaced.

        Raises:
            errors.UserError: there is none, or it is damaged.
        """
        self._path, self._metrics, self._loader = saved_model, counters, worker.Worker()
        version_dir = recogniser.find_version(saved_model)
        self._is_fixed = version_dir == saved_model
        self._tried = {_stamp(version_dir)}
        self.current = served_version.ServedVersion(version_dir)
        counters.set_version(self.current.number)

    async def watch(self) -> None:
        """Looks for newer versions until it is cancelled."""
        while not self._is_fixed:
            await asyncio.sleep(POLL_SECONDS)
            await self.refresh()

    async def refresh(self) -> None:
        """Loads the newest version if it is not the current one; one that does not load is tried once."""
        try:
            version_dir = recogniser.find_version(self._path)
            stamp = _stamp(version_dir)
        except (errors.UserError, OSError):  # removed meanwhile
            return
        if version_dir == self.current.version_dir or stamp in self._tried:
            return
        self._tried.add(stamp)
        try:
            loaded = await self._loader.call(served_version.ServedVersion, version_dir)
        except Exception as error:
            logging.error("%s; version %s is served on", error, self.current.number)
            return
        self._replace(loaded)

    def _replace(self, loaded: served_version.ServedVersion) -> None:
        old, self.current = self.current, loaded
        old.retire()
        self._metrics.set_version(loaded.number)
        logging.info("version %s is served, loaded in %.1f s", loaded.number, loaded.load_seconds)


def _stamp(version_dir: str) -> tuple[str, int]:
    """A version that is replaced under its name is another one."""
    return version_dir, os.stat(version_dir).st_mtime_ns
