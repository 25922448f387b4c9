"""A headless Chromium that opens pages, controlled through two pipes with the DevTools protocol."""

import fcntl
import functools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# All text on a page, including the text in the shadow roots of web components and in frames.
_TEXT = """
(function text(node) {
  if (node.nodeName === 'IFRAME') return node.contentDocument ? text(node.contentDocument.body) : '';
  if (node.nodeType === Node.TEXT_NODE) return node.textContent.trim() + ' ';
  if (['STYLE', 'SCRIPT', 'TEMPLATE'].includes(node.nodeName)) return '';
  const style = node.nodeType === Node.ELEMENT_NODE ? getComputedStyle(node) : null;
  if (style && style.display === 'none') return '';
  const parts = [...(node.shadowRoot ? node.shadowRoot.childNodes : []), ...node.childNodes];
  return parts.map(text).join('');
})(document.body)
"""
# The elements with a given tag name, including those in shadow roots, as [width, height, source].
_ELEMENTS = """
(function all(node, name) {
  const found = node.nodeName.toLowerCase() === name ? [node] : [];
  const parts = [...(node.shadowRoot ? node.shadowRoot.childNodes : []), ...node.childNodes];
  return found.concat(...parts.map((part) => all(part, name)));
})(document.body, %s).map((each) => [
  each.naturalWidth || each.getBoundingClientRect().width,
  each.naturalHeight || each.getBoundingClientRect().height,
  each.src || '',
])
"""


def find() -> str | None:
    """Returns the path of an installed browser, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


def _connect(requests: int, answers: int) -> None:
    """Makes the pipes the browser's descriptors 3 (from which it reads) and 4 (to which it writes)."""
    copies = [fcntl.fcntl(pipe, fcntl.F_DUPFD, 10) for pipe in (requests, answers)]
    for copy, descriptor in zip(copies, (3, 4)):
        os.dup2(copy, descriptor)


class Browser:
    """A browser with one page, which ends with the `with` block; its microphone can play a WAV file."""

    def __init__(self, program: str, width: int = 1400, height: int = 900, microphone: str | None = None):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        requests_out, self._requests = os.pipe()
        self._answers, answers_in = os.pipe()
        command = [
            *(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            # The browser finds no other hosts, as on a machine without a network.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
            *("--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio", "--remote-debugging-pipe"),
            *(f"--use-{name}-for-media-stream" for name in ("fake-ui", "fake-device") if microphone),
            *((f"--use-file-for-fake-audio-capture={microphone}",) if microphone else ()),
            *(f"--user-data-dir={self._profile.name}", f"--window-size={width},{height}", "about:blank"),
        ]
        connect = functools.partial(_connect, requests_out, answers_in)
        self._process = subprocess.Popen(
            command, preexec_fn=connect, pass_fds=(3, 4), stderr=subprocess.DEVNULL
        )
        os.close(requests_out), os.close(answers_in)
        self._unread, self._number, self._session = b"", 0, None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._requests), os.close(self._answers)
        self._profile.cleanup()

    def open(self, url: str) -> None:
        self._call("Page.navigate", url="about:blank")  # a URL that differs only after its # would not load
        self._call("Page.navigate", url=url)

    def run(self, script: str):
        """Returns the value of an expression, which runs as if the user had clicked (it may play sounds)."""
        options = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        answer = self._call("Runtime.evaluate", expression=script, **options)
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Presses and releases a key; `key` is its name in KeyboardEvent."""
        codes = {"Tab": 9, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
        for kind in ("rawKeyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes[key])

    def prefer_dark(self) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        self._call("Emulation.setEmulatedMedia", features=features)

    def text(self) -> str:
        return " ".join((self.run(_TEXT) or "").split())

    def elements(self, name: str) -> list:
        return self.run(_ELEMENTS % json.dumps(name)) or []

    def wait(self, condition, seconds: float = 60.0):
        """Waits until condition() is true, and returns its value."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"not seen within {seconds} s; the page says: {self.text()[:3000]}")

    def choose_file(self, selector: str, path: str) -> None:
        """Puts a file into an <input type="file">."""
        document = self._call("DOM.getDocument")["root"]["nodeId"]
        node = self._call("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        self._call("DOM.setFileInputFiles", files=[path], nodeId=node)

    def _call(self, method: str, **parameters):
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._requests, json.dumps(request).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _read(self, seconds: float = 60.0) -> dict:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], seconds)
            assert ready, "the browser does not answer"
            part = os.read(self._answers, 1 << 16)
            assert part, "the browser has ended"
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)
