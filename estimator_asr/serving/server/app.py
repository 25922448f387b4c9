"""The ASGI application: routes for all APIs, the health check, the metrics and the web page."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
from importlib import resources
from typing import Optional

from starlette import applications, exceptions, requests, responses, routing
from starlette.types import ASGIApp

from estimator_asr.serving.server import (
    align_api,
    api_errors,
    live_api,
    metrics,
    middleware,
    openai_api,
    service,
    tensorflow_api,
)
from tfrecord_builder import errors

_PAGE_DIR = os.path.join(os.path.dirname(__file__), "page")
# Files that the server's page shares with the page that runs without a server (estimator_asr_runtime).
_SHARED_DIR = str(resources.files("estimator_asr_runtime") / "web" / "shared")
_HEALTH_SECONDS = 4.5  # maximum wait for a result, so that /healthz responds within 5 s
_SHARED_SECONDS = 1.0  # requests to /healthz within this time share one inference


def build(
    parts: service.Service, token: Optional[str] = None, hosts: Optional[tuple[str, ...]] = None
) -> ASGIApp:
    """Returns the application, which starts and stops the service; see middleware for `token` and `hosts`."""

    @contextlib.asynccontextmanager
    async def lifespan(_):
        await parts.start()
        yield
        await parts.stop()

    async def show_metrics(_: requests.Request) -> responses.Response:
        return responses.Response(parts.metrics.format(), media_type=metrics.CONTENT_TYPE)

    routes = [
        *tensorflow_api.TensorFlowApi(parts).list_routes(),
        *openai_api.OpenAIApi(parts).list_routes(),
        live_api.make_route(parts),
        align_api.make_route(parts),
        routing.Route("/healthz", Health(parts).show_health, methods=["GET"]),
        routing.Route("/metrics", show_metrics, methods=["GET"]),
        *_list_page_routes(_PAGE_DIR, "/page/"),
        *_list_page_routes(_SHARED_DIR, "/page/shared/"),
    ]
    app = applications.Starlette(routes=routes, lifespan=lifespan)
    for kind in (api_errors.ApiError, errors.UserError, exceptions.HTTPException, Exception):
        app.add_exception_handler(kind, _respond_to_error)
    check = functools.partial(middleware.check, token, hosts)
    return middleware.Observed(app, parts.metrics, check, parts.limits.max_connections)


def _list_page_routes(directory: str, url: str) -> list[routing.Route]:
    """Returns a route for each file, so that requests cannot read other files; index.html is served at /."""

    def make_route(name: str) -> routing.Route:
        async def show_page(_: requests.Request) -> responses.Response:
            return responses.FileResponse(os.path.join(directory, name))

        return routing.Route("/" if name == "index.html" else url + name, show_page)

    return [make_route(name) for name in sorted(os.listdir(directory))]


async def _respond_to_error(request: requests.Request, error: Exception) -> responses.Response:
    path = request.url.path
    if isinstance(error, exceptions.HTTPException):
        message = f"{request.method} {path[:200]}: {error.detail}; see docs/serve.md"
        error = api_errors.ApiError(error.status_code, message, error.headers)
    elif isinstance(error, errors.UserError):
        error = api_errors.refuse(str(error))
    elif not isinstance(error, api_errors.ApiError):
        message = f"the server failed ({type(error).__name__}); see its log for details"
        error = api_errors.ApiError(500, message)
    return api_errors.respond(path, error)


class Health:
    """The route /healthz, which checks that the queue and its threads can recognise a second of noise.

    The noise may have to wait for a long batch. The server is then reported as busy, not as failed, until
    that batch has taken much longer than predicted (batching.Batcher.stalls_at). Requests to /healthz within
    the same second share one inference, so that frequent health checks do not slow down other requests.
    """

    def __init__(self, parts: service.Service):
        self._parts = parts
        self._probe: Optional[asyncio.Task] = None
        self._began = 0.0

    async def show_health(self, _: requests.Request) -> responses.Response:
        """Responds with 200 and the version, even while a long batch is running, or with 503 and an error."""
        is_old = time.monotonic() - self._began >= _SHARED_SECONDS
        if self._probe is None or (self._probe.done() and is_old):
            self._probe, self._began = asyncio.create_task(self._recognise()), time.monotonic()
        try:
            version = await asyncio.shield(self._probe)
        except asyncio.TimeoutError:
            if time.monotonic() < self._parts.batcher.stalls_at:
                version = self._parts.versions.current.number
                return responses.JSONResponse({"status": "busy", "version": version})
            problem = f"did not recognise a second of audio within {_HEALTH_SECONDS:g} s"
        except Exception as error:
            problem = f"cannot recognise a second of audio ({str(error)[:200]})"
        else:
            return responses.JSONResponse({"status": "ok", "version": version})
        message = f"the worker {problem}; restart the server"
        return responses.JSONResponse({"status": "failed", "error": message}, 503)

    async def _recognise(self) -> str:
        with self._parts.versions.current.used() as version:
            probe = version.make_item(version.make_probe()["waveform"])
            await asyncio.wait_for(self._parts.batcher.recognise([probe], is_urgent=True), _HEALTH_SECONDS)
            return version.number
