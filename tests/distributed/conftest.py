"""A cluster on this machine."""

import pytest


@pytest.fixture(scope="module")
def client():
    """Two processes of a thread each."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            yield client
