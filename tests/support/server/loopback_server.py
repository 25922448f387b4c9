"""An HTTP server on 127.0.0.1 that supports range requests, or misbehaves as the test specifies.

with loopback_server.serve({"/a.tgz": content}) as server:
    server.script = [loopback_server.break_off(1000)]  # one function for each of the next requests
    ... server.address("/a.tgz") ...
    server.asked  # the headers of each request, in order
"""

import contextlib
import http.server
import re
import threading


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, contents):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.contents = dict(contents)
        self.asked = []
        self.script = []
        self.answer = serve_ranges  # answers all requests after the end of the script
        self.ended = threading.Event()

    def address(self, path=""):
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def handle_error(self, request, client_address):
        """Prints nothing, because clients may hang up."""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(dict(self.headers))
        content = self.server.contents.get(self.path)
        if content is None:
            return status(404)(self, b"")
        answer = self.server.script.pop(0) if self.server.script else self.server.answer
        answer(self, content)

    def log_message(self, *arguments):
        pass

    def head(self, code, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()


@contextlib.contextmanager
def serve(contents):
    server = Server(contents)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def asked_start(handler):
    """Returns the index of the first byte that is requested."""
    found = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    return int(found[1]) if found else 0


def _send_head(handler, content, start):
    size = len(content)
    if start:
        span = f"bytes {start}-{size - 1}/{size}"
        handler.head(206, Content_Range=span, Content_Length=size - start)
    else:
        handler.head(200, Content_Length=size)


def serve_ranges(handler, content):
    start = asked_start(handler)
    if start and start >= len(content):
        return handler.head(416, Content_Range=f"bytes */{len(content)}", Content_Length=0)
    _send_head(handler, content, start)
    handler.wfile.write(content[start:])


def ignore_ranges(handler, content):
    handler.head(200, Content_Length=len(content))
    handler.wfile.write(content)


def break_off(num_bytes):
    """Declares the whole length, but hangs up after sending `num_bytes` from the requested start."""

    def answer(handler, content):
        start = asked_start(handler)
        _send_head(handler, content, start)
        handler.wfile.write(content[start : start + num_bytes])

    return answer


def claim(num_bytes):
    """Declares `num_bytes`, whatever the length of the content."""

    def answer(handler, content):
        handler.head(200, Content_Length=num_bytes)
        handler.wfile.write(content)

    return answer


def without_length(num_bytes=None):
    """Declares no length, and closes the connection after `num_bytes` (None: after the whole content)."""

    def answer(handler, content):
        handler.head(200)
        handler.wfile.write(content[:num_bytes])

    return answer


def range_header(text, length=None):
    """Answers with status 206 and the Content-Range `text`."""

    def answer(handler, content):
        rest = content[asked_start(handler) :] if length is None else bytes(length)
        handler.head(206, Content_Range=text, Content_Length=len(rest))
        handler.wfile.write(rest)

    return answer


def status(code):
    def answer(handler, content):
        handler.head(code, Content_Length=0)

    return answer


def redirect(location):
    def answer(handler, content):
        handler.head(302, Location=location, Content_Length=0)

    return answer


def hang(handler, content):
    """Sends no answer until the test ends."""
    handler.server.ended.wait(30)
