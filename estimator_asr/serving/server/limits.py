"""The server's limits, which can be set with the flags of serve."""

from __future__ import annotations

import dataclasses

from tfrecord_builder.program import config_flags


@dataclasses.dataclass(frozen=True)
class Limits(config_flags.Checked):
    """The limits; the help text of each flag describes it."""

    max_batch_size: int = config_flags.setting(16, "maximum number of utterances in a batch", minimum=1)
    batch_delay_ms: float = config_flags.setting(
        50.0, "maximum time in ms that an utterance waits for more utterances to join its batch", minimum=0
    )
    max_queue_seconds: float = config_flags.setting(
        600.0,
        "maximum seconds of audio in the queue; further requests are refused with status 429",
        positive=True,
    )
    max_request_mb: float = config_flags.setting(32.0, "maximum size of a request in MiB", positive=True)
    max_audio_seconds: float = config_flags.setting(
        600.0,
        "maximum seconds of audio in a stream or a request; for :predict, all utterances count together",
        positive=True,
    )
    max_body_seconds: float = config_flags.setting(
        30.0,
        "maximum seconds to receive a request; sending ten minutes of WAV in 30 s needs 5 Mbit/s",
        positive=True,
    )
    max_connections: int = config_flags.setting(
        500, "maximum number of connections with an open request", minimum=1
    )
    idle_seconds: float = config_flags.setting(
        75.0,
        "seconds until an idle connection is closed; proxies often close idle connections after 60 s",
        positive=True,
    )
    stop_seconds: float = config_flags.setting(
        30.0, "seconds that open requests get to finish when the server is stopped", positive=True
    )
