"""The ASGI application: routes of all APIs, health, metrics and the page."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Optional

from starlette import applications, exceptions, requests, responses, routing
from starlette.types import ASGIApp

from estimator_asr.server import (
    api_errors,
    health,
    hosts,
    metrics,
    middleware,
    openai_api,
    service,
    tensorflow_api,
)
from tfrecord_builder import errors

_PAGE_DIR = os.path.join(os.path.dirname(__file__), "page")


def build(
    parts: service.Service, token: Optional[str] = None, hosts_allowed: Optional[tuple[str, ...]] = None
) -> ASGIApp:
    """Returns the application.

    Args:
        parts: a service that is not started; the application starts and stops it.
        token: what requests must have as bearer token; None: nothing.
        hosts_allowed: what their Host header may name, see hosts.list_allowed.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_):
        await parts.start()
        yield
        await parts.stop()

    app = applications.Starlette(routes=_list_routes(parts), lifespan=lifespan)
    for kind in (api_errors.ApiError, errors.UserError, exceptions.HTTPException, Exception):
        app.add_exception_handler(kind, _respond_to_error)
    checks = (
        middleware.check_framing,
        functools.partial(hosts.check_host, hosts_allowed),
        hosts.check_site,
        functools.partial(middleware.check_token, token),
    )
    return middleware.Observed(middleware.Checked(app, checks), parts.metrics)


def _list_routes(parts: service.Service) -> list[routing.BaseRoute]:
    async def show_metrics(_: requests.Request) -> responses.Response:
        return responses.Response(parts.metrics.format(), media_type=metrics.CONTENT_TYPE)

    return [
        *tensorflow_api.TensorFlowApi(parts).list_routes(),
        *openai_api.OpenAIApi(parts).list_routes(),
        routing.Route("/healthz", health.Health(parts).show_health, methods=["GET"]),
        routing.Route("/metrics", show_metrics, methods=["GET"]),
        *_list_page_routes(),
    ]


def _list_page_routes() -> list[routing.Route]:
    """One route for each file, so that no path of a request is opened; they are open to all."""
    return [_make_page_route(name) for name in sorted(os.listdir(_PAGE_DIR))]


def _make_page_route(name: str) -> routing.Route:
    async def show_page(_: requests.Request) -> responses.Response:
        return responses.FileResponse(os.path.join(_PAGE_DIR, name))

    return routing.Route("/" if name == "index.html" else f"/page/{name}", show_page, methods=["GET"])


async def _respond_to_error(request: requests.Request, error: Exception) -> responses.Response:
    if isinstance(error, api_errors.ApiError):
        return api_errors.respond(request.url.path, error)
    if isinstance(error, exceptions.HTTPException):
        message = f"{request.method} {request.url.path[:200]}: {error.detail}; see docs/serve.md"
        return api_errors.respond(
            request.url.path, api_errors.ApiError(error.status_code, message, error.headers)
        )
    if isinstance(error, errors.UserError):
        return api_errors.respond(request.url.path, api_errors.refuse(str(error)))
    message = f"server: has failed ({type(error).__name__}); its log has the details"
    return api_errors.respond(request.url.path, api_errors.ApiError(500, message))
