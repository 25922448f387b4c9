"""Trains on the executors of Spark, one worker in each task: see docs/scale-out.md.

spark-submit --master=spark://HOST:7077 examples/spark/train.py NUM_WORKERS --data_dir=DATA --model_dir=AM
"""

import json
import os
import socket
import subprocess
import sys

from pyspark import BarrierTaskContext, SparkContext

num_workers, flags = int(sys.argv[1]), sys.argv[2:]


def train(_):
    task, server = BarrierTaskContext.get(), socket.create_server(("", 0))
    host = task.getTaskInfos()[task.partitionId()].address.split(":")[0]
    workers = task.allGather(f"{host}:{server.getsockname()[1]}")
    server.close()
    cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": task.partitionId()}}
    command = [sys.executable, "-m", "estimator_asr.train", *flags]
    subprocess.run(command, env={**os.environ, "TF_CONFIG": json.dumps(cluster)}, check=True)
    return []


SparkContext().parallelize(range(num_workers), num_workers).barrier().mapPartitions(train).count()
