"""The ops of a training step that run on the CPU even where there is a GPU."""

from __future__ import annotations

import gpu_kernels
import pytest
import tensorflow as tf

# Losses and metrics of sequences: CTC's classic kernel (on GPUs cuDNN's replaces it), edits, ragged lengths.
CPU_ONLY = {
    "acoustic": {"CTCLoss", "EditDistance", "RaggedTensorToSparse", "RaggedTensorToTensor"},
    "language": {"EditDistance", "Pad", "RaggedRange"},  # Pad: of int64, for the hashes of n-grams
}
# What every step has: clocks, TensorBoard, and the marks of StepWatch.
ALWAYS = {"PyFunc", "ScalarSummary", "Timestamp"}
# Lengths; and the weight update, which stays in float32 whatever the precision.
NOT_IN_HALF = {"Range"}
NOT_IN_BFLOAT16 = {"Range", "MulNoNan", "ResourceApplyAdam"}


@pytest.mark.long
@pytest.mark.parametrize("kind", CPU_ONLY)
def test_few_ops_have_no_gpu_kernel(kind):
    nodes = gpu_kernels.build_nodes(kind)
    assert gpu_kernels.find_missing(nodes) <= CPU_ONLY[kind] | ALWAYS
    assert CPU_ONLY[kind] <= gpu_kernels.find_missing(nodes)
    others = CPU_ONLY[kind] | ALWAYS
    assert gpu_kernels.find_missing(nodes, tf.float16) - others <= NOT_IN_HALF
    assert gpu_kernels.find_missing(nodes, tf.bfloat16) - others <= NOT_IN_BFLOAT16
