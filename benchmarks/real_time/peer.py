"""PyTorch's side of benchmarks/real_time.py: the same conformer, traced and frozen by torch.jit."""

from collections.abc import Mapping

import kaldi_native_fbank
import numpy as np
import torch
from torch import nn

from benchmarks.train_step import peer as train_step_torch
from estimator_asr.experiment import model_directory

_TOLERANCE = 1e-3  # allowed error of log probabilities, which are about 5 in size


class Encoder(nn.Module):
    """From log-mel to log probabilities of CTC."""

    def __init__(self, acoustic: train_step_torch.Acoustic):
        super().__init__()
        self.acoustic = acoustic

    def forward(self, fbank: torch.Tensor, num_frames: torch.Tensor) -> torch.Tensor:
        """Takes [batch, frames, bins] and [batch]; returns [batch, frames / 4, classes]."""
        memory, _ = self.acoustic.encoder(train_step_torch.normalise(fbank, num_frames), num_frames)
        return torch.log_softmax(self.acoustic.ctc.classify(memory), dim=-1)


class Recogniser:
    """The peer; each method does the work from the samples to the end of its part."""

    def __init__(
        self,
        model: model_directory.ModelDirectory,
        weights: Mapping[str, np.ndarray],
        waveform: np.ndarray,
        fbank: np.ndarray,
        log_probs: np.ndarray,
    ):
        """Traces the model for a waveform; fbank and log_probs are ours of it.

        Raises:
            AssertionError: the model gives other log probabilities.
        """
        num_bins = model.config.frontend.num_bins
        acoustic = train_step_torch.Acoustic(model.config.acoustic, log_probs.shape[2], num_bins)
        acoustic.decoder = nn.Identity()
        used = {name: value for name, value in weights.items() if not name.endswith("num_updates")}
        train_step_torch.load(acoustic, used)
        self._waveform, self._rate = waveform, model.config.frontend.sample_rate
        self._num_bins = num_bins
        given = torch.tensor(fbank), torch.tensor([fbank.shape[1]])
        with torch.inference_mode():
            traced = torch.jit.trace(Encoder(acoustic).eval(), given, check_trace=False)
            self._encoder = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
            np.testing.assert_allclose(self._encoder(*given), log_probs, atol=_TOLERANCE)

    def frontend(self) -> torch.Tensor:
        """Returns log-mel, [1, num_frames, num_bins]."""
        options = kaldi_native_fbank.FbankOptions()
        options.frame_opts.dither, options.mel_opts.num_bins = 0, self._num_bins
        options.frame_opts.samp_freq = self._rate
        extractor = kaldi_native_fbank.OnlineFbank(options)
        extractor.accept_waveform(self._rate, self._waveform.tolist())
        extractor.input_finished()
        frames = [extractor.get_frame(number) for number in range(extractor.num_frames_ready)]
        return torch.from_numpy(np.stack(frames))[None]

    def encoder(self) -> torch.Tensor:
        """Returns the log probabilities of CTC, [1, num_subsampled, num_classes]."""
        fbank = self.frontend()
        with torch.inference_mode():
            return self._encoder(fbank, torch.tensor([fbank.shape[1]]))

    def decoding(self) -> list[int]:
        """Returns the ids of the best path."""
        scores = self.encoder()
        path = torch.unique_consecutive(scores[0].argmax(-1)).tolist()
        return [index for index in path if index != scores.shape[2] - 1]
