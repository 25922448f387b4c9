"""Writes one to three model directories as one SavedModel, EXPORT/<version>/.

    saved_model.pb, variables/    the graph built by signatures.py, the weights from the checkpoints
    assets/                       tokens.txt, characters.txt; tokens.txt_1 if the language model's differs;
                                  likewise characters.txt_1 of the punctuation model; bpe.model if the
                                  acoustic model writes subwords
    assets.extra/export.json      frontend, token type, batch settings for evaluate, decoding settings,
                                  vocabulary hashes, checkpoint steps, results of comparisons, size and
                                  sha256 of each file
    assets.extra/written_form.json
                                  rules for numbers; only with a punctuation model

A version is written under a unique temporary name and then renamed, so that a server that watches EXPORT
never sees an incomplete version, and two simultaneous exports become two versions.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import time
import uuid
from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from estimator_asr.exporting.saved_model import (
    cascade,
    export_info,
    model_pairs,
    signatures,
    statuses,
    streams,
    trained_model,
)
from estimator_asr.pretrained import encoder_weights
from estimator_asr_runtime import written_form
from tfrecord_builder.data import dataset_info
from tfrecord_builder.storage import directories


def write(
    acoustic: trained_model.TrainedModel,
    language: Optional[trained_model.TrainedModel],
    export_dir: str,
    complete: Callable[[str, export_info.ExportInfo], export_info.ExportInfo] = lambda path, info: info,
    punctuation: Optional[trained_model.TrainedModel] = None,
) -> str:
    """Writes a new version and keeps old versions.

    If `language` is None, transcripts consist of tokens; if `punctuation` is None, they have no marks. Before
    the version is published, `complete` is called with the version's path and info; `complete` may add files
    to the version, and returns the info with the results of comparisons.

    Returns:
        Path of the version. Its name is the time in seconds, or the newest version plus 1 if that is larger.
    """
    incomplete = os.path.join(export_dir, f"incomplete-{uuid.uuid4().hex[:8]}")
    with directories.temporary(incomplete) as temporary:
        info = _describe(acoustic, language, punctuation)
        _write_graph(acoustic, language, punctuation, temporary)
        if acoustic.model.config.bpe_sha256:  # build --vocabulary_dir needs it next to tokens.txt
            source = os.path.join(acoustic.model.path, dataset_info.BPE_FILE)
            shutil.copyfile(source, os.path.join(temporary, "assets", dataset_info.BPE_FILE))
        if punctuation:
            path = os.path.join(temporary, export_info.WRITTEN_FORM_FILE)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copyfile(written_form.PATH, path)
        info.save(temporary)
        complete(temporary, info).save(temporary)  # saved again, with the files that `complete` added
        return _publish(temporary, export_dir)


def _publish(temporary: str, export_dir: str) -> str:
    """Renames the directory to the next free number; a rename never replaces a non-empty directory."""
    while True:
        newest = max((int(name) for name in os.listdir(export_dir) if name.isdecimal()), default=0)
        path = os.path.join(export_dir, str(max(int(time.time()), newest + 1)))
        try:
            os.rename(temporary, path)
            return path
        except OSError as error:
            # If another export has just taken the number, the next one is tried.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _write_graph(acoustic, language, punctuation, path) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        others = (trained and trained.model for trained in (language, punctuation))
        by_name = signatures.build(acoustic.model, *others)
        # tables_initializer modifies operations in the graph, so it must precede the session's first run.
        initialize_tables = tf.compat.v1.tables_initializer()
        for trained in filter(None, (acoustic, language, punctuation)):
            cascade.restore(session, trained.model, trained.checkpoint)
        encoder = acoustic.model.config.frontend.encoder
        if encoder:
            encoder_weights.load(session, acoustic.model.path, encoder.encoder)
        builder = tf.compat.v1.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            signature_def_map={
                name: tf.compat.v1.saved_model.predict_signature_def(signature.inputs, signature.outputs)
                for name, signature in by_name.items()
            },
            assets_collection=tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.ASSET_FILEPATHS),
            main_op=initialize_tables,
            strip_default_attrs=True,
        )
        builder.save()


def _describe(acoustic, language, punctuation) -> export_info.ExportInfo:
    config = acoustic.model.config
    unread = language and model_pairs.find_unread(acoustic.model, language.model)
    return export_info.ExportInfo(
        frontend=config.frontend,
        token_type=config.token_type,
        max_seconds=statuses.find_max_seconds(config.frontend),
        chunk_frames=config.acoustic.chunk_frames * streams.can_stream(acoustic.model),
        input={"batch_frames": config.input.batch_frames, "num_buckets": config.input.num_buckets},
        acoustic=_describe_model(acoustic),
        language=language and _describe_model(language),
        punctuation=punctuation and _describe_model(punctuation),
        unread=unread or export_info.UnreadTokens(),
    )


def _describe_model(trained: trained_model.TrainedModel) -> export_info.ModelInfo:
    config = trained.model.config
    hashes = {name: getattr(config, name) for name in config.spec.vocabularies}
    decode = {name: str(value) for name, value in dataclasses.asdict(trained.model.decode).items()}
    return export_info.ModelInfo(trained.global_step, **hashes, decode=decode)
