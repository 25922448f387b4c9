"""Sends WAV files to a server that runs this model and prints the responses; needs only Python.

python client.py [--url=http://127.0.0.1:8501/v1/models/asr] FILE.wav...
"""

import argparse
import base64
import http.client
import json
import sys
import urllib.error
import urllib.request


def encode(path):
    """Returns the contents of a file in base64."""
    try:
        with open(path, "rb") as file:
            return base64.b64encode(file.read()).decode("ascii")
    except OSError as error:
        sys.exit(f"error: {path} cannot be read ({error.strerror}); pass paths of WAV files")


def transcribe(url, path):
    """Transcribes a file through TensorFlow Serving's REST API; returns a dict of the model's outputs.

    The server rejects requests with more files than max_batch_size (see batching_parameters.txt).
    """
    body = json.dumps({"instances": [{"b64": encode(path)}]}).encode("utf-8")
    request = urllib.request.Request(f"{url}:predict", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)["predictions"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8501/v1/models/asr", help="URL of the model")
    parser.add_argument("files", nargs="+", metavar="FILE.wav")
    arguments = parser.parse_args()
    try:
        for path in arguments.files:
            outputs = transcribe(arguments.url, path)
            print(path, outputs["status"], outputs["transcript"], outputs["pinyin"], sep="\t")
    except urllib.error.HTTPError as error:
        sys.exit(f"error: {arguments.url}: {error.code} {error.read().decode('utf-8', 'replace')}")
    except (OSError, ValueError, http.client.InvalidURL) as error:
        sys.exit(
            f"error: {arguments.url} cannot be reached ({error}); start the server, or pass another --url"
        )


if __name__ == "__main__":
    main()
