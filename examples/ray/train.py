"""Trains on a cluster of Ray, on as many nodes as it has for the workers: see docs/scale-out.md.

RAY_ADDRESS=auto python examples/ray/train.py NUM_WORKERS GPUS_PER_WORKER --data_dir=DATA --model_dir=AM
"""

import json
import os
import socket
import subprocess
import sys

import ray


@ray.remote(num_cpus=1, num_gpus=float(sys.argv[2]), scheduling_strategy="SPREAD")
class Worker:
    def find_address(self):
        with socket.create_server(("", 0)) as server:
            return f"{ray.util.get_node_ip_address()}:{server.getsockname()[1]}"

    def train(self, workers, index, flags):
        cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        command = [sys.executable, "-m", "estimator_asr.train", *flags]
        subprocess.run(command, env={**os.environ, "TF_CONFIG": json.dumps(cluster)}, check=True)


ray.init()
actors = [Worker.remote() for _ in range(int(sys.argv[1]))]
addresses = ray.get([actor.find_address.remote() for actor in actors])
ray.get([actor.train.remote(addresses, index, sys.argv[3:]) for index, actor in enumerate(actors)])
