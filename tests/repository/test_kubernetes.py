"""Tests the Kubernetes manifest in examples/: every pod gets a TF_CONFIG that the program accepts."""

import json
import re
import subprocess

import paths
import pytest
import yaml

from estimator_asr.training.distributed import cluster

MANIFEST = paths.ROOT / "examples" / "kubernetes" / "jobset.yaml"
DOCKERFILE = (paths.ROOT / "Dockerfile").read_text(encoding="utf-8")
DOCUMENTS = {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text("utf-8"))}
SPEC = DOCUMENTS["JobSet"]["spec"]
CLUSTER = DOCUMENTS["ConfigMap"]["data"]["cluster.json"]
JOBS = {job["name"]: job["template"]["spec"] for job in SPEC["replicatedJobs"]}
every_job = pytest.mark.parametrize("name", JOBS)


def pod_of(name):
    """Returns the specifications of a job's pods and of their only container."""
    pod = JOBS[name]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


def task_of(name, index):
    """Runs a pod's command up to `export TF_CONFIG`, with the variables that Kubernetes would set."""
    _, container = pod_of(name)
    assert [variable["name"] for variable in container["env"]] == ["CLUSTER", "TASK_TYPE"]
    export, program = container["args"][0].split(" && ")
    assert program.startswith("exec python -m estimator_asr.train ")
    command = [*container["command"], f"{export} && printenv TF_CONFIG"]
    variables = {"CLUSTER": CLUSTER, "TASK_TYPE": name, "JOB_COMPLETION_INDEX": str(index)}
    environment = {**variables, "PATH": "/usr/bin:/bin"}
    return cluster.parse_tf_config(subprocess.check_output(command, env=environment, text=True))


def test_every_pod_gets_its_own_task_of_the_same_cluster():
    tasks = [task_of("worker", 0), task_of("worker", 1), task_of("evaluator", 0)]
    assert [task.name for task in tasks] == ["chief", "worker-1", "evaluator"]
    assert {(task.workers, task.evaluator) for task in tasks} == {
        (("asr-worker-0-0.asr:2222", "asr-worker-0-1.asr:2222"), "asr-evaluator-0-0.asr:2222")
    }


@every_job
def test_the_addresses_equal_the_host_names_of_the_pods(name):
    job, jobset = JOBS[name], DOCUMENTS["JobSet"]["metadata"]["name"]
    assert SPEC["network"]["enableDNSHostnames"]
    assert job["completionMode"] == "Indexed"  # sets JOB_COMPLETION_INDEX and the host names
    assert job["completions"] == job["parallelism"]
    (port,) = pod_of(name)[1]["ports"]
    hosts = [f"{jobset}-{name}-0-{index}.{jobset}" for index in range(job["completions"])]
    assert json.loads(CLUSTER)[name] == [f"{host}:{port['containerPort']}" for host in hosts]


@every_job
def test_a_crash_restarts_all_pods_but_a_user_error_does_not(name):
    policy, job, (pod, container) = SPEC["failurePolicy"], JOBS[name], pod_of(name)
    assert policy["maxRestarts"] > 0
    assert policy["rules"] == [{"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]
    assert (job["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    exit_codes = {"containerName": container["name"], "operator": "In", "values": [1]}
    assert job["podFailurePolicy"]["rules"] == [{"action": "FailJob", "onExitCodes": exit_codes}]


@every_job
def test_pods_share_the_volume_with_data_and_model_and_their_user_can_write_it(name):
    pod, container = pod_of(name)
    (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
    assert mount["name"] == volume["name"]
    for flag in ("--data_dir", "--model_dir"):
        assert f"{flag}={mount['mountPath']}/" in container["args"][0]
    (user,) = map(int, re.findall(r"(?m)^USER (\d+)$", DOCKERFILE))
    assert pod["securityContext"] == {"runAsNonRoot": True, "runAsUser": user, "fsGroup": user}


@every_job
def test_the_image_is_that_of_the_dockerfile_and_has_the_flag_file(name):
    _, container = pod_of(name)
    assert f"docker build --tag={container['image']} ." in MANIFEST.with_name("README.md").read_text()
    (file,) = re.findall(r"--flagfile=(flags/\S+)", container["args"][0])
    assert (paths.ROOT / file).is_file() and "COPY flags flags\n" in DOCKERFILE
