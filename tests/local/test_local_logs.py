"""What tasks write is to be had by the server, also while they write it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from serving import MUSTER, PATIENCE_S, Site

from muster.agent.protocol import MOST_PIECE, Piece
from muster.sdk.aclient import AsyncClient
from muster.sdk.client import Client
from muster.sdk.contexts import Context
from muster.sdk.errors import ApiError, NotFound
from muster.server.api.logs import decoded


@pytest.fixture
def client(site: Site) -> Client:
    return Client(Context(server=site.url, token=site.token))


def job(command: str | list[str], **more: object) -> dict[str, object]:
    return {"name": "job", "queue": "a", "cpu": "10m", "command": command, **more}


def test_output_is_to_be_had_after_the_end_whole_and_by_stream(site: Site, client: Client) -> None:
    long = MOST_PIECE * 2 + 1000  # more than one piece
    (name,) = site.submit(job([sys.executable, "-c", f"import sys; print('ö' * {long // 2}); sys.exit('oops')"]))
    site.wait([name])

    with client:
        assert "".join(client.logs(name)) == "ö" * (long // 2) + "\n"
        assert "".join(client.logs(name, stream="err")) == "oops\n"
        assert list(client.logs(name, stream="err", offset=5)) == []


def test_one_task_of_several_can_be_named(site: Site, client: Client) -> None:
    groups = [{"name": "worker", "count": 2, "cpu": "10m", "command": "echo $MUSTER_RANK"}]
    (name,) = site.submit({"name": "gang", "queue": "a", "groups": groups})
    site.wait([name])

    with client:
        assert [*client.logs(name), *client.logs(name, task="worker/1")] == ["0\n", "1\n"]
        with pytest.raises(NotFound, match="there is no task worker/2: there are worker/0, worker/1"):
            list(client.logs(name, task="worker/2"))
        with pytest.raises(NotFound, match="has no attempt 7"):
            list(client.logs(name, attempt=7))


def test_who_follows_sees_lines_as_they_come_whoever_restarts(site: Site, tmp_path: Path) -> None:
    first, second = (
        tmp_path / "first",
        tmp_path / "second",
    )  # one gate could open twice while its writer is slow to leave
    os.mkfifo(first)
    os.mkfifo(second)
    (name,) = site.submit(job(f"echo one; read line < {first}; echo two; read line < {second}; echo three"))

    async def follow() -> list[str]:
        seen = []
        async with AsyncClient(Context(server=site.url, token=site.token)) as client:
            async for text in client.logs(name, follow=True):
                seen.append(text)
                if text == "one\n":
                    await asyncio.to_thread(site.agents["desk"].end, signal.SIGKILL)
                    await asyncio.to_thread(first.write_text, "go\n")
                    await asyncio.to_thread(site.agents["desk"].start)
                if text == "two\n":
                    await asyncio.to_thread(second.write_text, "go\n")
        return seen

    assert asyncio.run(follow()) == ["one\n", "two\n", "three\n"]


def test_a_job_that_did_not_run_has_no_output(site: Site, client: Client) -> None:
    (name,) = site.submit(job("true", cpu=1000))

    with client, pytest.raises(ApiError, match=r"is queued and did not run") as refused:
        list(client.logs(name))
    assert refused.value.status == 409
    site.ask("POST", "/jobs/cancel", {"jobs": [name]})
    with Client(Context(server=site.url, token=site.token)) as again:
        assert list(again.logs(name, follow=True)) == []


def test_the_command_line_prints_output_to_output_and_errors_to_errors(site: Site) -> None:
    (name,) = site.submit(job("echo fine; echo wrong >&2"))

    for options in (["-f"], []):
        printed = subprocess.run(
            [*MUSTER, "logs", name, *options, "--server", site.url, "--token-file", str(site.token_file)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert (printed.returncode, printed.stdout, printed.stderr) == (0, "fine\n", "wrong\n")


def test_who_has_seen_enough_of_a_job_that_goes_on_is_not_kept(site: Site) -> None:
    (name,) = site.submit(job("while echo more; do sleep 0.1; done"))  # and says nothing to standard error
    told = ["logs", "-f", name, "--server", site.url, "--token-file", str(site.token_file)]
    site.wait([name], "running")

    with subprocess.Popen([*MUSTER, *told], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "more\n"
        following.stdout.close()
        assert following.wait(PATIENCE_S) == 0
    with subprocess.Popen([*MUSTER, *told], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "more\n"
        following.send_signal(signal.SIGINT)
        assert following.wait(PATIENCE_S) == 130
    site.ask("POST", "/jobs/cancel", {"jobs": [name]})


def test_who_may_not_view_the_queue_may_not_read_its_logs(site: Site) -> None:
    (name,) = site.submit(job("echo secret"))
    site.queue("other")
    made = site.ask("POST", "/tokens", {"name": "eve", "queues": {"other": ["view"]}}, status=201)

    with Client(Context(server=site.url, token=made["token"])) as eve, pytest.raises(ApiError) as refused:
        list(eve.logs(name))
    assert refused.value.status == 403


@pytest.mark.parametrize(
    "data, is_over, text, many",
    [
        pytest.param(b"ab\xc3\xb6", False, "abö", 4, id="whole letters are all there"),
        pytest.param(b"ab\xc3", False, "ab", 2, id="half a letter waits for the other half"),
        pytest.param(b"ab\xc3", True, "ab\ufffd", 3, id="which at the end will not come"),
        pytest.param(b"\xff\xfe", False, "\ufffd\ufffd", 2, id="what is no text is shown as such"),
    ],
)
def test_pieces_are_cut_between_letters(data: bytes, is_over: bool, text: str, many: int) -> None:
    assert decoded(Piece(number=1, data=data, is_over=is_over)) == (text, many)
