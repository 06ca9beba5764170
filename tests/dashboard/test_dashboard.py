"""The page and the metrics of a stream, over HTTP."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pytest

import muntin
from muntin import MuntinError
from muntin.spark.dashboard import Dashboard
from tests.dashboard.stream import Query, report

NOON = datetime(2024, 5, 1, 12)
HOSTILE = "</script><img src=x onerror=alert(1)>"


def results() -> pd.DataFrame:
    rows = []
    for hour in range(24):
        for place, key in enumerate(("JFK", "LGA", HOSTILE)):
            value = 10 * place + hour % 7
            window = {"start": NOON + timedelta(hours=hour), "end": NOON + timedelta(hours=hour + 1)}
            quality = {"low": {"delay": value - 2.0}, "high": {"delay": value + 3.0}}
            rows.append({"window": window, "origin": key, "delay": float(value), "quality": quality})
    return pd.DataFrame(rows)


@pytest.fixture
def page() -> Iterator[Dashboard]:
    with muntin.dashboard(Query(), results=results) as page:
        yield page


def get(page: Dashboard, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return found


def test_figures_of_every_batch(page: Dashboard) -> None:
    status, headers, text = get(page, "/figures.json")
    figures = json.loads(text)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert len(figures["batches"]) == 30
    last = figures["batches"][-1]
    assert (last["batch"], last["lag_seconds"], last["seconds"]) == (29, 3600, 0.8)
    assert last["parts"] == {"addBatch": 0.629, "walCommit": 0.09, "queryPlanning": 0.04}
    assert last["processed_rows_per_s"] == pytest.approx(last["rows"] / 0.8)
    assert (last["shed_rate"], last["compressed_after_seconds"]) == (0.58, 60)
    assert figures["totals"]["rows"] == 1_200_000
    windows = figures["windows"]["rows"]
    assert windows[0]["end"] == "2024-05-01 13:00:00"
    assert windows[-1] == {"end": "2024-05-02 12:00:00", "key": HOSTILE, "value": 22.0, "low": 20.0, "high": 25.0}


def test_metrics_for_prometheus(page: Dashboard) -> None:
    status, headers, text = get(page, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    line = re.compile(r'[a-z_]+\{query="(?:[^"\\]|\\.)*"(?:,part="[A-Za-z]+")?\} -?[0-9.e+-]+')
    samples = [each for each in text.splitlines() if not each.startswith("#")]
    assert all(line.fullmatch(sample) for sample in samples)
    assert 'muntin_rows_total{query="fares \\"<b>\\""} 1200000' in samples
    assert 'muntin_batch_part_seconds{query="fares \\"<b>\\"",part="walCommit"} 0.09' in samples
    assert 'muntin_watermark_lag_seconds{query="fares \\"<b>\\""} 3600.0' in samples
    named = [each.split()[2] for each in text.splitlines() if each.startswith("# TYPE")]
    assert len(named) == len(set(named)) > 30


def test_only_this_machine_reads_the_page_and_nothing_comes_from_elsewhere(page: Dashboard) -> None:
    status, headers, text = get(page, "/")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"unsafe|https?:|\*", policy)
    assert not re.search(r"https?://|<style|style=|<script>|\son\w+=", text)
    assert get(page, "/", Host="attacker.example")[0] == 421
    assert get(page, "/figures.json", Host=f"localhost:{page.port}")[0] == 200
    assert get(page, "/../server.py")[0] == 404
    assert get(page, "/", "POST")[0] == 501
    status, headers, text = get(page, "/page.js", "HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 1000
    script = get(page, "/page.js")[2]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|eval\(|document\.write", script)


def test_a_stream_without_batches_and_one_that_failed() -> None:
    query = Query(0)
    with muntin.dashboard(query) as page:
        figures = json.loads(get(page, "/figures.json")[2])
        assert (figures["batches"], figures["totals"], figures["windows"]) == ([], {}, None)
        assert get(page, "/metrics")[2].splitlines()[-1] == 'muntin_running{query="fares \\"<b>\\""} 1'
        query.recentProgress.append(report(0, watermark=False))
        query.isActive, query.failure = False, RuntimeError("disk is full\nat line 3")
        figures = json.loads(get(page, "/figures.json")[2])
        assert (figures["error"], figures["running"]) == ("disk is full", False)
        assert figures["batches"][0]["lag_seconds"] is None
        assert "watermark_lag" not in get(page, "/metrics")[2]


def test_results_that_cannot_be_read_are_a_message() -> None:
    def fails() -> Any:
        raise OSError("no such folder\nfurther down")

    with muntin.dashboard(Query(1), results=fails) as page:
        windows = json.loads(get(page, "/figures.json")[2])["windows"]
    assert windows == {"problem": "OSError: no such folder", "rows": []}


def test_it_stops_and_frees_its_port() -> None:
    page = muntin.dashboard(Query(1))
    port = page.port
    assert repr(page) == f"Dashboard(http://127.0.0.1:{port}/)"
    page.stop()
    page.stop()
    assert repr(page) == "Dashboard(stopped)"
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.1", port)) != 0
    with muntin.dashboard(Query(1), port=port) as again:
        assert again.port == port
        with pytest.raises(MuntinError, match=f"port {port} cannot be used"):
            muntin.dashboard(Query(1), port=port)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": 3}, "takes the StreamingQuery"),
        ({"results": "out"}, "must be a function"),
        ({"value": "n"}, "give it with results="),
        ({"port": 70000}, "from 0"),
        ({"port": "80"}, "from 0"),
        ({"name": "other"}, "no query of that name"),
    ],
)
def test_other_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    query = arguments.pop("query", Query(1))
    with pytest.raises(MuntinError, match=message):
        muntin.dashboard(query, **arguments)
