"""Model directories to one SavedModel, EXPORT/<version>/.

    saved_model.pb, variables/    signatures.py and cascade.py as a graph, the weights of the checkpoints
    assets/                       tokens.txt, characters.txt; tokens.txt_1 where the language model's differ
    assets.extra/export.json      frontend, unit, batches for evaluate, hashes and checkpoints

It is written under a temporary name and renamed, so that a server which watches EXPORT never sees half a
version.
"""

from __future__ import annotations

import json
import os
import shutil
import time

import tensorflow as tf

from estimator_asr.serving import cascade, recogniser, signatures, trained_model
from tfrecord_builder import config_json


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
    newest = max(recogniser.list_versions(export_dir), default=0)
    version = str(max(int(time.time()), newest + 1))
    temporary, path = os.path.join(export_dir, f"incomplete-{version}"), os.path.join(export_dir, version)
    try:
        _write_graph(acoustic, language, temporary)
        _write_info(acoustic, language, temporary)
        os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # nothing is there unless writing failed
    return path


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


def _write_info(
    acoustic: trained_model.TrainedModel, language: trained_model.TrainedModel | None, path: str
) -> None:
    config = acoustic.model.config
    info = {
        "frontend": config_json.to_json_dict(config.frontend),
        "unit": config.unit,
        "input": {"batch_frames": config.input.batch_frames, "num_buckets": config.input.num_buckets},
        "acoustic": _describe(acoustic, "tokens_sha256"),
        "language": language and _describe(language, "tokens_sha256", "characters_sha256", "readings_sha256"),
    }
    file_name = os.path.join(path, recogniser.INFO_FILE)
    os.makedirs(os.path.dirname(file_name))
    with open(file_name, "w", encoding="utf-8") as file:
        json.dump(info, file, indent=2)
        file.write("\n")


def _describe(trained: trained_model.TrainedModel, *hashes: str) -> dict:
    return {
        "global_step": trained.global_step,
        **{name: getattr(trained.model.config, name) for name in hashes},
    }
