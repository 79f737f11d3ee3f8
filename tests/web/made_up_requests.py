"""Asks the API whatever its description allows, and more: `test_api.py` runs this in a process of its own.

The library is large, and as a plugin it would be in every process of a test run.
"""

import pytest
import requests  # with it, schemathesis asks
import schemathesis
from hypothesis import HealthCheck, settings

from ckptd.web import openapi
from support.examples import FACTOR
from web.conftest import PASSWORD

DESCRIBED = schemathesis.openapi.from_dict(openapi.describe())


@pytest.fixture(params=["olga", "alice"])
def credentials(request):
    return request.param, PASSWORD


@pytest.fixture(scope="module")
def session():
    """Connections for all requests."""
    with requests.Session() as opened:
        yield opened


@DESCRIBED.parametrize()
@settings(
    max_examples=10 * FACTOR,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_answer_is_as_described_and_none_is_an_error_of_the_server(case, guarded, credentials, session):
    answer = case.call(base_url=guarded, auth=credentials, session=session)
    assert answer.status_code < 500
    case.validate_response(answer)
