"""Compares a new version with its models, and adds the files beside its graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Optional

from absl import logging

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory, task_spec
from estimator_asr.exporting import deployment, model_card, parity, reference, report_check, sample
from estimator_asr.inputs import splits
from estimator_asr.saved_model import saved_model_writer, trained_model
from tfrecord_builder.data import dataset_info


@dataclasses.dataclass(frozen=True)
class Data:
    """Data directories, and which utterances of them to compare."""

    infos: Mapping[str, dataset_info.DatasetInfo]  # by directory
    split: str
    source: splits.Split
    batching: config_lib.InputConfig
    num_utterances: int  # at most


def open_data(
    acoustic: trained_model.TrainedModel, data_dirs: Sequence[str], split: str, num_utterances: int
) -> Optional[Data]:
    """Opens data directories; None if there are none.

    Raises:
        errors.UserError: there is no such split, or the model cannot read the data.
    """
    if not data_dirs:
        return None
    infos = dict(zip(data_dirs, dataset_info.load_all(data_dirs)))
    for path, info in infos.items():
        model_directory.check_data(acoustic.model.path, acoustic.model.config, info, path)
    source = splits.read_split(list(infos.values()), list(infos), split, task_spec.ACOUSTIC)
    return Data(infos, split, source, acoustic.model.config.input, num_utterances)


def complete(
    data: Optional[Data], reports: Mapping[str, Mapping], licence: str, written: saved_model_writer.Written
) -> None:
    """Writes the files of deployment.py, parity.json if there are data, and the model card.

    Args:
        data: what the models must agree on; None: nothing.
        reports: contents of metrics.json by the directory of the report, for the card.
        licence: for the card; may be empty.
        written: the version.

    Raises:
        errors.UserError: the version and its models disagree, or a report is of another model.
    """
    report_check.check(reports, written)
    deployment.write(written.path, written.info.frontend.sample_rate)
    certificate = _certify(data, written) if data else None
    described = _describe(certificate)
    facts = model_card.Facts(data.infos if data else {}, list(reports.values()), licence, described)
    model_card.write(written.path, written.info, facts)
    logging.info("%s", described)


def _certify(data: Data, written: saved_model_writer.Written) -> parity.Certificate:
    info = written.info
    with splits.explain_damage(list(data.infos), data.split):
        utterances = sample.read(
            data.source, data.batching, data.num_utterances, info.frontend.sample_rate, info.max_seconds
        )
    spoken = [each.waveform for each in utterances if each.waveform is not None]
    if not spoken:
        logging.warning("no recording of split %s is at hand: WAV files are not compared", data.split)
    heard = list(reference.extract_features(written.acoustic.model, spoken))
    expected = {
        name: reference.recognise(written.acoustic, written.language, fbanks)
        for name, fbanks in (("features", [each.fbank for each in utterances]), ("serving_default", heard))
    }
    certificate = parity.certify(written.path, expected, utterances, info.frontend.sample_rate)
    certificate.data = f"{','.join(data.infos)}, {data.split}"
    certificate.save(written.path)
    return certificate


def _describe(certificate: Optional[parity.Certificate]) -> str:
    if certificate is None:
        return "Not compared with the models that it was made of: exported without --data_dir."
    return (
        f"Recognises {certificate.num_utterances} utterances ({certificate.num_recordings} as WAV files) as "
        f"the models do that it was made of: scores within {certificate.largest_difference:.1e}."
    )
