"""Model directories to one SavedModel, EXPORT/<version>/.

    saved_model.pb, variables/    signatures.py and cascade.py as a graph, the weights of the checkpoints
    assets/                       tokens.txt, characters.txt; tokens.txt_1 where the language model's differ;
                                  bpe.model of a model that writes subwords
    assets.extra/export.json      frontend, token type, batches for evaluate, hashes and checkpoints, size and
                                  sha256 of each file

It is written under a temporary name of its own and renamed, so that a server which watches EXPORT never sees
half a version, and two exports at the same time become two versions.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid

import tensorflow as tf

from estimator_asr.serving import cascade, export_info, signatures, trained_model
from tfrecord_builder import dataset_info


def write(
    acoustic: trained_model.TrainedModel, language: trained_model.TrainedModel | None, export_dir: str
) -> str:
    """Write a new version.

    Args:
      language: None for an export that gives tokens.
      export_dir: made if it is not there; other versions in it stay.

    Returns:
      Path of the version; its name is the time in seconds, or one more than the newest version there.
    """
    os.makedirs(export_dir, exist_ok=True)
    temporary = os.path.join(export_dir, f"incomplete-{uuid.uuid4().hex[:8]}")
    try:
        _write_graph(acoustic, language, temporary)
        _copy_subwords(acoustic, temporary)
        _write_info(acoustic, language, temporary)
        return _publish(temporary, export_dir)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # nothing is there unless writing failed


def _publish(temporary: str, export_dir: str) -> str:
    """Renames to the next free number: a directory that holds files is never renamed over."""
    while True:
        newest = max((int(name) for name in os.listdir(export_dir) if name.isdecimal()), default=0)
        path = os.path.join(export_dir, str(max(int(time.time()), newest + 1)))
        try:
            os.rename(temporary, path)
            return path
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another export took the number just now
                raise


def _write_graph(
    acoustic: trained_model.TrainedModel, language: trained_model.TrainedModel | None, path: str
) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        entrances = signatures.build_entrances(acoustic.model.config.frontend)
        outputs = cascade.transcribe(
            acoustic.model, language and language.model, entrances.fbank, entrances.num_frames
        )
        initialize_tables = tf.compat.v1.tables_initializer()  # marks ops, so before the session runs any
        for trained in filter(None, (acoustic, language)):
            cascade.restore(session, trained.model, trained.checkpoint)
        builder = tf.compat.v1.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            signature_def_map=_signature_defs(entrances, outputs),
            assets_collection=tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.ASSET_FILEPATHS),
            main_op=initialize_tables,
            strip_default_attrs=True,
        )
        builder.save()


def _signature_defs(entrances: signatures.Entrances, outputs: cascade.Transcripts) -> dict:
    return {
        name: tf.compat.v1.saved_model.predict_signature_def(
            {key: getattr(entrances, key) for key in inputs}, outputs._asdict()
        )
        for name, inputs in signatures.SIGNATURE_INPUTS.items()
    }


def _copy_subwords(acoustic: trained_model.TrainedModel, path: str) -> None:
    """Puts the sentencepiece model beside its tokens, so that --vocabulary_dir finds both in assets/."""
    if acoustic.model.config.bpe_sha256:
        source = os.path.join(acoustic.model.path, dataset_info.BPE_FILE)
        shutil.copyfile(source, os.path.join(path, "assets", dataset_info.BPE_FILE))


def _write_info(
    acoustic: trained_model.TrainedModel, language: trained_model.TrainedModel | None, path: str
) -> None:
    config = acoustic.model.config
    info = export_info.ExportInfo(
        frontend=config.frontend,
        token_type=config.token_type,
        input={"batch_frames": config.input.batch_frames, "num_buckets": config.input.num_buckets},
        acoustic=_describe(acoustic, "tokens_sha256"),
        language=language and _describe(language, "tokens_sha256", "characters_sha256", "readings_sha256"),
    )
    info.save(path)


def _describe(trained: trained_model.TrainedModel, *hashes: str) -> export_info.ModelInfo:
    return export_info.ModelInfo(
        trained.global_step, **{name: getattr(trained.model.config, name) for name in hashes}
    )
