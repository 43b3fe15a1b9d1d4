"""A page of another loopback port in a real browser, at a local cloud: it reaches no operation and reads no answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from cloud_clients import boto3_client
from http_servers import Files, serving_http
from selenium import webdriver

from loadproof.localcloud.local import LocalCloud, running

pytestmark = pytest.mark.browser
FORM = "application/x-www-form-urlencoded"
_GUESSED = "AWS4-HMAC-SHA256 Credential=test/20261122/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0"

# What the page does, by name. `at(body)` is the cloud's address with the attack's name in it, `form` asks for a queue
# of that name; `done(text)` ends the attack and says what the page could read.
ATTACKS = {
    "simple-fetch": "fetch(at(), {method: 'POST', mode: 'no-cors', headers: {'Content-Type': 'text/plain'},"
    " body: form}).then(r => done(`${r.type} ${r.status}`), e => done('failed'))",
    "form-fetch": "fetch(at(), {method: 'POST', mode: 'no-cors', body: new URLSearchParams(form)})"
    ".then(r => done(`${r.type} ${r.status}`), e => done('failed'))",
    "readable-fetch": "fetch(at()).then(r => r.text()).then(done, e => done('failed'))",
    "guessed-key": "fetch(at(), {method: 'POST', headers: {'Content-Type': 'application/x-www-form-urlencoded',"
    f" 'Authorization': '{_GUESSED}'}}, body: form}}).then(r => r.text()).then(done, e => done('failed'))",
    "own-headers": "fetch(at(), {method: 'POST', headers: {'X-Amz-Target': 'AmazonSQS.CreateQueue', 'Content-Type':"
    " 'application/x-amz-json-1.0'}, body: JSON.stringify({QueueName: name})}).then(r => r.text())"
    ".then(done, e => done('failed'))",
    "put-a-bucket": "fetch(`${cloud}/${name}`, {method: 'PUT'}).then(r => r.text()).then(done, e => done('failed'))",
    "form-submit": "submit('application/x-www-form-urlencoded')",
    "form-as-text": "submit('text/plain')",
    "form-multipart": "submit('multipart/form-data')",
    "websocket": "{const s = new WebSocket(at().replace('http', 'ws')); s.onopen = () => done('open');"
    " s.onerror = () => done('failed')}",
    "image": "{const i = new Image(); i.onload = () => done('loaded'); i.onerror = () => done('failed');"
    " i.src = `${at()}&${form}`}",
    "script": "{const s = document.createElement('script'); s.onload = () => done('loaded');"
    " s.onerror = () => done('failed'); s.src = `${at()}&${form}`; document.body.append(s)}",
    "null-origin": "{const f = document.createElement('iframe'); f.sandbox = 'allow-scripts allow-forms';"
    " onmessage = e => done(e.data); f.srcdoc = `<script>fetch('${at()}', {method: 'POST', mode: 'no-cors',"
    " headers: {'Content-Type': 'text/plain'}, body: '${form}'})"
    ".then(r => parent.postMessage(r.type + ' ' + r.status, '*'),"
    " e => parent.postMessage('failed', '*'))<\\/script>`; document.body.append(f)}",
    "beacon": "{navigator.sendBeacon(at(), new Blob([form], {type: 'application/x-www-form-urlencoded'}));"
    " setTimeout(() => done('sent'), 500)}",
}
# What a page may know of an opaque answer: nothing.
_NOTHING_READ = {"failed", "opaque 0", "sent"}
# Preflighted: the browser asks by OPTIONS, is refused, and never sends the request.
_NEVER_SENT = {"guessed-key", "own-headers", "put-a-bucket"}

_PAGE = """<!doctype html><title>evil</title><body><script>
function attack(cloud, name, code, finished) {
  const form = `Action=CreateQueue&QueueName=${name}&Version=2012-11-05`
  const at = () => `${cloud}/?via=${name}`
  const done = text => finished(String(text))
  const submit = type => {
    const frame = document.createElement('iframe'); frame.name = name; document.body.append(frame)
    const one = document.createElement('form')
    Object.assign(one, {action: at(), method: 'post', enctype: type, target: name})
    for (const [key, value] of new URLSearchParams(form)) {
      const field = document.createElement('input'); field.name = key; field.value = value; one.append(field)
    }
    document.body.append(one)
    frame.onload = () => {
      let text
      try { text = frame.contentDocument ? frame.contentDocument.body.innerText : 'failed' } catch { text = 'failed' }
      if (frame.src !== 'about:blank') done(text || 'failed')
    }
    one.submit()
  }
  eval(code)
}
</script>"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        with running("browsed") as one:
            yield one


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page on another port of loopback."""
    folder = tmp_path_factory.mktemp("evil")
    (folder / "index.html").write_text(_PAGE, encoding="utf-8")

    with serving_http(partial(Files, directory=str(folder))) as url:
        yield f"{url.replace('127.0.0.1', 'localhost')}/index.html"


@pytest.fixture(scope="module")
def attack(browser: webdriver.Chrome, cloud: LocalCloud, evil: str) -> Callable[[str], str]:
    def run(name: str) -> str:
        browser.set_script_timeout(20)
        browser.get(evil)
        script = "attack(arguments[0], arguments[1], arguments[2], arguments[3])"
        return str(browser.execute_async_script(script, cloud.endpoint_url, name, ATTACKS[name]))

    return run


@pytest.mark.parametrize("name", ATTACKS)
def test_a_page_reaches_nothing(name: str, attack: Callable[[str], str], cloud: LocalCloud) -> None:
    """It reads nothing, an honest client finds nothing made, and the cloud noted that it refused what came."""
    before = cloud.log_file.stat().st_size
    assert attack(name) in _NOTHING_READ
    assert boto3_client(cloud, "sqs").list_queues().get("QueueUrls", []) == []
    assert boto3_client(cloud, "s3").list_buckets()["Buckets"] == []
    refused = _refused(cloud.log_file, before)
    assert refused and all(name in line for line in refused)
    assert all("not let in: OPTIONS" in line for line in refused) == (name in _NEVER_SENT)


def _refused(log: Path, after_bytes: int) -> list[str]:
    """What the cloud has refused since, as soon as it has refused something."""
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        with log.open("rb") as file:
            file.seek(after_bytes)
            lines = [line for line in file.read().decode().splitlines() if "not let in:" in line]
        if lines:
            return lines
        time.sleep(0.05)
    return []
