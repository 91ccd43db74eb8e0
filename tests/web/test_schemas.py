"""Both APIs under schemathesis: whatever is sent, no 5xx, and answers of the form that the API describes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis", reason="it is of the extra [dev]")

from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
QUICK = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.mark.parametrize("prefix", ["/api", "/v2", "/metrics"])
def test_whatever_is_sent_is_answered_as_described(sites: Any, prefix: str) -> None:
    schema = schemathesis.openapi.from_url(f"{sites('table', 'schemas')}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    mine = [operation for operation in operations if operation.path.startswith(prefix)]
    assert mine
    for operation in mine:

        @given(case=operation.as_strategy())
        @QUICK
        def answered(case: Any) -> None:
            if "model_name" in (case.path_parameters or {}):
                case.path_parameters |= {"model_name": "table"}  # another is answered by 404 alone
            case.call_and_validate(checks=CHECKS)

        answered()


def test_the_server_still_decides(sites: Any) -> None:
    import httpx

    site = sites("table", "schemas")
    assert httpx.post(f"{site}/api/card", json={"input": {"cells": {"age": 30}}}).status_code == 200
    assert httpx.get(f"{site}/v2/health/ready").json() == {"ready": True}
