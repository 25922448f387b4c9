"""The manifest in examples/, read as Kubernetes would: every pod gets a TF_CONFIG that the program takes."""

from __future__ import annotations

import json
import re
import subprocess

import paths
import pytest
import yaml

from estimator_asr.training.distributed import cluster

MANIFEST = paths.ROOT / "examples" / "kubernetes" / "jobset.yaml"


@pytest.fixture(scope="module")
def documents():
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


def list_jobs(documents):
    return {job["name"]: job["template"]["spec"] for job in documents["JobSet"]["spec"]["replicatedJobs"]}


def tf_config_of(documents, job, index):
    """Runs the command of a pod up to the export, with the variables that Kubernetes would set."""
    (container,) = list_jobs(documents)[job]["template"]["spec"]["containers"]
    assert [variable["name"] for variable in container["env"]] == ["CLUSTER", "TASK_TYPE"]
    environment = {
        "CLUSTER": documents["ConfigMap"]["data"]["cluster.json"],
        "TASK_TYPE": job,
        "JOB_COMPLETION_INDEX": str(index),
    }
    export, program = container["args"][0].split(" && ")
    assert program.startswith("exec python -m estimator_asr.train ")
    script = [*container["command"], f"{export} && printenv TF_CONFIG"]
    environment["PATH"] = "/usr/bin:/bin"
    return subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout


def test_every_pod_gets_its_own_task_of_the_same_cluster(documents):
    pods = [("worker", 0), ("worker", 1), ("evaluator", 0)]
    tasks = [cluster.parse(tf_config_of(documents, *pod)) for pod in pods]
    assert [task.name for task in tasks] == ["chief", "worker-1", "evaluator"]
    assert {(task.workers, task.evaluator) for task in tasks} == {
        (("asr-worker-0-0.asr:2222", "asr-worker-0-1.asr:2222"), "asr-evaluator-0-0.asr:2222")
    }


def test_the_addresses_are_those_that_jobset_gives_its_pods(documents):
    name = documents["JobSet"]["metadata"]["name"]
    listed = json.loads(documents["ConfigMap"]["data"]["cluster.json"])
    for job, spec in list_jobs(documents).items():
        assert spec["completions"] == spec["parallelism"] == len(listed[job])
        assert spec["completionMode"] == "Indexed"  # which sets JOB_COMPLETION_INDEX and the host names
        hosts = [f"{name}-{job}-0-{index}.{name}" for index in range(spec["completions"])]
        assert [address.split(":")[0] for address in listed[job]] == hosts
    ports = {port["containerPort"] for port in spec["template"]["spec"]["containers"][0]["ports"]}
    assert {int(address.split(":")[1]) for addresses in listed.values() for address in addresses} == ports
    assert documents["JobSet"]["spec"]["network"]["enableDNSHostnames"]


def test_a_failure_starts_all_again_but_a_refusal_does_not(documents):
    policy = documents["JobSet"]["spec"]["failurePolicy"]
    assert policy["maxRestarts"] > 0
    assert policy["rules"] == [{"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]
    for spec in list_jobs(documents).values():
        assert spec["backoffLimit"] == 0 and spec["template"]["spec"]["restartPolicy"] == "Never"
        (rule,) = spec["podFailurePolicy"]["rules"]
        assert rule["action"] == "FailJob" and rule["onExitCodes"]["values"] == [1]
        (container,) = spec["template"]["spec"]["containers"]
        assert rule["onExitCodes"]["containerName"] == container["name"]


def test_all_pods_share_the_volume_with_data_and_model(documents):
    for spec in list_jobs(documents).values():
        pod = spec["template"]["spec"]
        (mount,) = pod["containers"][0]["volumeMounts"]
        assert mount["name"] == pod["volumes"][0]["name"]
        for flag in ("--data_dir", "--model_dir"):
            assert f"{flag}={mount['mountPath']}/" in pod["containers"][0]["args"][0]


def test_the_image_is_that_of_the_dockerfile(documents):
    """Its user can write the volume, and its working directory has the flag file that the command names."""
    dockerfile = (paths.ROOT / "Dockerfile").read_text(encoding="utf-8")
    (user,) = re.findall(r"(?m)^USER (\d+)$", dockerfile)
    assert "COPY flags flags\n" in dockerfile
    built = "docker build --tag={} ."
    for spec in list_jobs(documents).values():
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"] == {"runAsNonRoot": True, "runAsUser": int(user), "fsGroup": int(user)}
        (flagfile,) = re.findall(r"--flagfile=(\S+)", container["args"][0])
        assert flagfile.startswith("flags/") and (paths.ROOT / flagfile).is_file()
        assert built.format(container["image"]) in MANIFEST.with_name("README.md").read_text()
