# The programs with their pinned requirements, for CPUs, and for GPUs with NVIDIA's container toolkit:
#
#   docker build --tag=estimator-asr .
#   docker build --tag=estimator-asr:gpu --build-arg=DEVICE=gpu .
#   docker run --rm --volume="$PWD/asr:/asr" estimator-asr estimator_asr.train --data_dir=/asr/data --model_dir=/asr/model
#
# PYTHON chooses the TensorFlow: 2.15 with 3.10 and 3.11, 2.21 with 3.12 and 3.13.
ARG PYTHON=3.12
FROM python:${PYTHON}-slim-bookworm

ARG DEVICE=cpu
WORKDIR /opt/estimator_asr
COPY requirements.txt .
RUN pip install --no-cache-dir --requirement requirements.txt
# CUDA and cuDNN come as wheels, as TensorFlow's own extra lists them; only the driver is that of the machine.
RUN case "$DEVICE" in \
      cpu) ;; \
      gpu) version=$(python -c 'import importlib.metadata as m; print(m.version("tensorflow"))') \
           && pip install --no-cache-dir "tensorflow[and-cuda]==$version" ;; \
      *) echo "DEVICE is $DEVICE, expected cpu or gpu" >&2; exit 1 ;; \
    esac

COPY tfrecord_builder tfrecord_builder
COPY estimator_asr estimator_asr
COPY estimator_asr_runtime estimator_asr_runtime
COPY benchmarks benchmarks
COPY flags flags

# The number, because Kubernetes checks it against runAsNonRoot.
RUN useradd --create-home --uid 1000 asr
USER 1000
ENV PYTHONPATH=/opt/estimator_asr PYTHONUNBUFFERED=1 NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENTRYPOINT ["python", "-m"]
CMD ["estimator_asr.doctor"]
