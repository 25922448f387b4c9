"""What is done with a checkpoint on the dev split: figures, exports, alarms, cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from absl import logging

from estimator_asr import model_directory
from estimator_asr.inputs import input_fn, splits
from estimator_asr.monitoring import prediction_samples, progress, watchdog
from estimator_asr.training import evaluation, exporters
from estimator_asr.training import termination as hooks
from estimator_asr.training.distributed import cluster as cluster_lib
from tfrecord_builder import dataset_info

DEV_SPLIT = "dev"


def build(
    model: model_directory.ModelDirectory,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    watching: Optional[watchdog.Watchdog],
    termination: hooks.Termination,
    cluster: Optional[cluster_lib.Cluster],
) -> evaluation.Evaluation:
    """Returns how dev is evaluated, and all that follows; without a dev split, only what is exported.

    Args:
        model, infos, data_dirs: as for run_loop.train.
        cluster: that this process is part of; None: it trains alone.
        watching: looks at the figures; None: nothing does.
        termination: leaves an evaluation early.
    """
    chosen = exporters.build_exporters(model, exporters.build_features_receiver_fn(model.config))
    if not any(DEV_SPLIT in info.splits for info in infos):
        logging.warning("%s: there is no %s split, so nothing is evaluated", ",".join(data_dirs), DEV_SPLIT)
        return evaluation.Evaluation(None, [], chosen)
    read = input_fn.build_input_fn(
        infos,
        data_dirs,
        DEV_SPLIT,
        model.config.input,
        spec=model.config.spec,
        training=False,
        fixed_shapes=model.config.train.xla,
    )
    own = [hooks.StopEvaluationHook(termination)]
    own.append(progress.EvaluationHook(DEV_SPLIT, _count_batches(model, infos, data_dirs)))
    alarms = [watchdog.WatchdogExporter(watching)] if watching else []
    shows = cluster is None or cluster.is_evaluator
    shown = prediction_samples.build(model, infos, data_dirs, DEV_SPLIT) if shows else []
    return evaluation.Evaluation(read, own, [*chosen[:-1], *alarms, *shown, chosen[-1]])


def _count_batches(model, infos, data_dirs):
    source = splits.read_split(infos, data_dirs, DEV_SPLIT, model.config.spec)
    return source.bucket(model.config.input).batches_per_epoch
