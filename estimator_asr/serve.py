"""Serves an exported model over HTTP, with TensorFlow Serving's API, OpenAI's API, metrics and a web page.

    python -m estimator_asr.serve --saved_model=EXPORT [--port=8501] [--host=127.0.0.1]

    curl http://127.0.0.1:8501/v1/audio/transcriptions -F file=@speech.mp3 -F model=asr
    curl http://127.0.0.1:8501/v1/models/asr:predict -d '{"instances": [{"b64": "UklGR..."}]}'

The server prints one line with its URL once the model is loaded. Concurrent requests are recognised in
batches. A newer version in EXPORT replaces the current one without dropping requests. After SIGTERM or
Ctrl-C, the server answers the requests that it has accepted, then ends. docs/serve.md describes the APIs,
limits and metrics.
"""

from __future__ import annotations

import dataclasses
import logging as standard_logging
import os
from typing import Optional

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import tensorflow as tf
from absl import logging

from estimator_asr.serving.server import limits
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, program
from tfrecord_builder.storage import files

GROUPS = {
    "Model and address": ("saved_model", "host", "port", "token_file"),
    "Requests": ("max_request_mb", "max_audio_seconds", "stop_seconds"),
    "Batches": ("max_batch_size", "batch_delay_ms", "max_queue_seconds"),
}
_LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"


@dataclasses.dataclass(frozen=True)
class ServeConfig(limits.Limits):
    """Flags of serve."""

    saved_model: str = config_flags.setting(
        "", "export directory, or one version in it", required=True, checkpoints=True
    )
    port: int = config_flags.setting(8501, "TCP port; 0 for any free port", minimum=0, maximum=65535)
    host: str = config_flags.setting("127.0.0.1", "address to listen on; 0.0.0.0 for all networks")
    token_file: Optional[str] = config_flags.setting(
        None,
        "file that contains the bearer token that requests must send; if not set, requests need no token",
        not_empty=True,
    )


def read_token(path: Optional[str]) -> Optional[str]:
    """Returns the token in a file, without surrounding white space; None if `path` is None.

    Raises errors.UserError if the file cannot be read, or does not contain a single word of ASCII characters.
    """
    if path is None:
        return None
    try:
        token = files.read_text(path).strip()
    except (OSError, ValueError) as error:
        raise errors.UserError(f"--token_file: {path} cannot be read ({error}); pass another file") from error
    if not token or not token.isascii() or len(token.split()) != 1:
        raise errors.UserError(
            f"--token_file: {path} contains no valid token; write a single word of ASCII characters to it"
        )
    return token


def main(config: ServeConfig) -> None:
    try:
        from estimator_asr.serving.server import app, running, service
    except ImportError as error:
        raise errors.library_missing("the server", error, "serve") from error
    tf.get_logger().setLevel("ERROR")
    logging.get_absl_handler().setFormatter(standard_logging.Formatter(*_LOG_FORMAT))
    token = read_token(config.token_file)
    bound = running.bind(config.host, config.port)
    parts = service.Service(config.saved_model, config)
    version = parts.versions.current
    if version.info.unread.tokens:
        logging.warning("%s", version.info.describe_unread(version.version_dir))

    def announce(url: str) -> None:
        loaded = f"version {version.number or '-'}, loaded in {version.load_seconds:.1f} s"
        print(f"{url} serves {version.version_dir}: {loaded}", flush=True)

    hosts = None if token else running.list_local_hosts(config.host, bound)
    if not token and not hosts:
        logging.warning(
            "--host=%s: anyone who can reach the server can use it; pass --token_file to require a token",
            config.host,
        )
    application = app.build(parts, token, hosts)
    running.run(application, bound, config, announce)
    os._exit(0)  # ends the process even if a thread hangs


if __name__ == "__main__":
    program.run(main, ServeConfig, groups=GROUPS)
