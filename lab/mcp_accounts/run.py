"""The driver: principals who call all the time, and what happens to everything around them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import aiohttp

from ferrule.errors import FerruleError
from lab.mcp_accounts.browser import SignInFailedError, sign_in
from lab.mcp_accounts.leaks import dump_ledger, occurrences
from lab.mcp_accounts.processes import TOKEN_SECONDS, AuthorizationServer, McpServer
from lab.postgres_server import postgres_server
from lab.served_gateway import ServedGateway
from lab.servers import free_port
from live.scripted_model import Said, ScriptedModel, results_in, scripted_model

TENANTS: Final = ("acme", "evil", "third")
NAMES: Final = ("ann", "bob", "eve")
OWN, TEAM, OPEN = "own", "team", "open"
"""The MCP servers: an account for each principal, one for each tenant, and none."""
_SHARES: Final = {OWN: 0.65, TEAM: 0.25, OPEN: 0.1}
"""How many of the calls are to each."""
NOBODY: Final = "nobody"
"""What the server without accounts answers."""
REVOKED: Final = ("acme", "bob")
"""Whose grant is revoked in the middle. Somebody of the same name is in the other tenants."""
_KEY: Final = hashlib.sha256(b"a key for the entries of this run").hexdigest()
_ADMIN: Final = "admin-of-{}"
_PAUSE_SECONDS: Final = (2.0, 6.0)
_AWAY_SECONDS: Final = 5.0
_LOGIN_SECONDS: Final = 3.0
"""How long a call waits for a login before it ends with `needs_login`."""
_CALL_SECONDS: Final = 150.0
_READY_SECONDS: Final = 600.0
_SLOW_SHARE, _SLOW_SECONDS = 0.2, 3.0
_MODEL_SHARE: Final = 0.15
_KILL_WINDOW: Final = 3.0
"""A process that is killed so many seconds after the answer to a refresh may not have recorded it."""
_ID: Final = re.compile("[0-9a-f]{8,}|[0-9]{6,}")
_WHOAMI: Final = "{}_whoami"
_CONFIG: Final = """
[engines.m]
use = "openai:m"
url = "{model}"
key = "x"

[server]
port = {port}
ledger = "{ledger}"
drain_seconds = 1

[tools]
tools_require_confirmation_for_side_effects = false

[sources]
mcp_config = "{folder}/mcp.json"
mcp_credentials = "ledger"
mcp_question_seconds = {login_seconds}
"""
_ADMIN_KEY: Final = """
[keys.{name}]
sha256 = "{sha256}"
tenant = "{tenant}"
tools = ["*"]
admin = true
"""


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal of a tenant, and its key."""

    tenant: str
    name: str
    key: str = field(repr=False)

    @property
    def account(self) -> str:
        return account_of(self.tenant, self.name)

    def account_at(self, server: str) -> str:
        return {OWN: self.account, TEAM: team_of(self.tenant), OPEN: NOBODY}[server]


def account_of(tenant: str, name: str) -> str:
    return f"{name}@{tenant}"


def team_of(tenant: str) -> str:
    return f"team@{tenant}"


@dataclass(slots=True)
class Accounts:
    """A run on one ledger: what was counted, and what must not have happened."""

    database: str
    seconds: float
    folder: Path
    address: str
    gateways: list[ServedGateway]
    authorization: AuthorizationServer
    servers: dict[str, McpServer]
    model: ScriptedModel
    session: aiohttp.ClientSession
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    messages: Counter[str] = field(default_factory=Counter[str])
    """The errors in the words of the gateway."""
    breaches: list[str] = field(default_factory=list[str])
    needs_login: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict[str, list[float]](list))
    """When a call of which account ended with `needs_login`."""
    gaps: defaultdict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    """The longest time between two good answers of an account."""
    revoked_at: float = 0.0
    _callers: list[Caller] = field(default_factory=list[Caller])
    _logins: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])
    _answers: list[str] = field(default_factory=list[str])

    @property
    def revoked_account(self) -> str:
        return account_of(*REVOKED)

    def require(self, claim: bool, breach: str) -> None:
        if not claim:
            self.breaches.append(breach)

    async def run(self) -> None:
        for process in (self.authorization, *self.servers.values()):
            await asyncio.to_thread(process.start)
        for gateway in self.gateways:
            await gateway.start()
        self._callers = [await self._add_caller(tenant, name) for tenant in TENANTS for name in NAMES]
        for tenant in TENANTS:
            await self._sign_in(TEAM, _ADMIN.format(tenant), team_of(tenant))
        for caller in self._callers:
            await self._sign_in(OWN, caller.key, caller.account)
        await self._wait_until_ready()
        stopping = asyncio.Event()
        began = time.monotonic()
        calling = [asyncio.create_task(self._keep_calling(one, stopping)) for one in self._callers]
        try:
            await self._disturb(began)
            await asyncio.sleep(began + self.seconds - time.monotonic())
        finally:
            stopping.set()
            ended = await asyncio.gather(*calling, return_exceptions=True)
        self.breaches += [f"a caller ended: {one!r}" for one in ended if one is not None]
        self.counts["seconds"] = round(time.monotonic() - began)

    # --- What happens ---

    async def _disturb(self, began: float) -> None:
        first, second = self.gateways

        async def kill(*gateways: ServedGateway) -> None:
            await asyncio.gather(*(one.restart(self.chance.uniform(0, 2)) for one in gateways))

        story: Sequence[tuple[float, Callable[[], Awaitable[None]]]] = (
            (0.08, lambda: kill(first)),
            (0.16, lambda: kill(second)),
            (0.24, self._restart_authorization_server),
            (0.32, self._restart_servers),
            (0.40, lambda: kill(first)),
            (0.46, lambda: kill(second)),
            (0.52, self._revoke),
            (0.62, lambda: kill(first, second)),
            (0.70, self._restart_authorization_server),
            (0.76, lambda: kill(second)),
            (0.82, self._restart_servers),
            (0.88, lambda: kill(first)),
        )
        for share, happen in story:
            # At a random moment around it, so that nothing is in step with the refreshes.
            moment = began + self.seconds * (share + self.chance.uniform(-0.02, 0.02))
            await asyncio.sleep(moment - time.monotonic())
            await happen()

    async def _restart_authorization_server(self) -> None:
        # It answers what it has begun, so that no token is lost that a gateway has no record of.
        await asyncio.to_thread(self.authorization.stop, signal.SIGTERM)
        await asyncio.sleep(_AWAY_SECONDS)
        await asyncio.to_thread(self.authorization.start)
        self.authorization.restarts += 1

    async def _restart_servers(self) -> None:
        servers = [self.servers[OWN], self.servers[TEAM]]
        for server in servers:
            server.stop()
        await asyncio.sleep(_AWAY_SECONDS)
        for server in servers:
            await asyncio.to_thread(server.start)
            server.restarts += 1

    async def _revoke(self) -> None:
        self.revoked_at = time.time()
        async with self.session.post(f"{self.authorization.url}/accounts/{self.revoked_account}/revoke") as answer:
            ended = (await answer.json(content_type=None))["revoked"]
        self.require(ended == 1, f"{ended} grants were revoked")

    # --- What principals do ---

    async def _keep_calling(self, caller: Caller, stopping: asyncio.Event) -> None:
        last = time.monotonic()
        while not stopping.is_set():
            (server,) = self.chance.choices(list(_SHARES), list(_SHARES.values()))
            if await self._call(caller, server):
                now = time.monotonic()
                if server == OWN:
                    self.gaps[caller.account] = max(self.gaps[caller.account], now - last)
                    last = now
            await asyncio.sleep(self.chance.uniform(*_PAUSE_SECONDS))

    async def _call(self, caller: Caller, server: str) -> bool:
        """Call as this principal. True if the answer was good; what it was otherwise is counted."""
        by_model = self.chance.random() < _MODEL_SHARE
        seconds = _SLOW_SECONDS if self.chance.random() < _SLOW_SHARE else 0.0
        tool, account = _WHOAMI.format(server), caller.account_at(server)
        if by_model:
            path, body = "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": tool}]}
        else:
            path, body = "/v1/tools/call", {"name": tool, "arguments": {"seconds": seconds}}
        self.counts["calls"] += 1
        self.counts["calls by a model"] += by_model
        try:
            status, reply = await self._send(self.chance.choice(self.gateways), path, body, caller.key)
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            self.errors["the gateway was killed or away"] += 1
            return False
        except TimeoutError:
            self.breaches.append(f"a call of {account} took more than {_CALL_SECONDS:g} seconds")
            return False
        text = json.dumps(reply)
        named = {one for one in self._accounts() if one in text}
        # The hint of a call that needs a login names the tenant and the principal, and no account.
        self.require(named <= {account}, f"a call of {account} was answered as {sorted(named)}")
        self.counts["answered as another principal"] += bool(named - {account})
        if status == 200 and named == {account}:
            self.counts["calls answered"] += 1
            return True
        await self._count_error(caller, server, status, text)
        return False

    def _accounts(self) -> list[str]:
        return [*(account_of(tenant, name) for tenant in TENANTS for name in NAMES), *map(team_of, TENANTS), NOBODY]

    async def _count_error(self, caller: Caller, server: str, status: int, text: str) -> None:
        account = caller.account_at(server)
        if "to sign in" in text or "needs_login" in text:
            self.errors["needs_login"] += 1
            self.needs_login[account].append(time.time())
            key = caller.key if server == OWN else _ADMIN.format(caller.tenant)
            await self._sign_in(server, key, account)
            return
        kind = next((label for label, words in _KINDS.items() if any(one in text for one in words)), "")
        self.messages[_without_ids(text)] += 1
        if kind:
            self.errors[kind] += 1
        else:
            self.breaches.append(f"an error that is not documented: {status} {text:.400}")

    async def _sign_in(self, server: str, key: str, account: str) -> None:
        """Sign in, as often as it takes while gateways are killed. One person does so once at a time."""
        lock = self._logins.setdefault(account, asyncio.Lock())
        if lock.locked():
            async with lock:
                return
        async with lock, asyncio.timeout(_READY_SECONDS):
            while True:
                gateway = self.chance.choice(self.gateways)
                try:
                    await sign_in(gateway.url, server, key, account)
                except (aiohttp.ClientError, SignInFailedError) as error:
                    self.counts["logins that were begun again"] += 1
                    self.errors[f"login: {type(error).__name__}"] += 1
                    await asyncio.sleep(1)
                else:
                    return

    async def _add_caller(self, tenant: str, name: str) -> Caller:
        body = {"name": name, "tools": ["*"], "models": ["*"]}
        status, reply = await self._send(self.gateways[0], "/v1/keys", body, _ADMIN.format(tenant))
        assert status == 201, reply
        return Caller(tenant, name, reply["key"])

    async def _wait_until_ready(self) -> None:
        """Wait until both gateways offer the tools of both servers, and answer everyone."""
        async with asyncio.timeout(_READY_SECONDS):
            for gateway in self.gateways:
                for caller in self._callers:
                    for server in _SHARES:
                        body: dict[str, Any] = {"name": _WHOAMI.format(server), "arguments": {}}
                        while (await self._send(gateway, "/v1/tools/call", body, caller.key))[0] != 200:
                            await asyncio.sleep(0.5)

    async def _send(self, gateway: ServedGateway, path: str, body: Any, key: str) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {key}"}
        limit = aiohttp.ClientTimeout(total=_CALL_SECONDS)
        async with self.session.post(f"{gateway.url}{path}", json=body, headers=headers, timeout=limit) as answer:
            reply = await answer.json()
            self._answers.append(json.dumps(reply))
            return answer.status, reply

    # --- What is found at the end ---

    def check(self) -> None:
        """Compare what the authorization server did with what had to happen. The gateways have ended."""
        events = self.authorization.events()
        refreshes = [one for one in events if one["event"] == "refresh_token"]
        good = [one for one in refreshes if one["status"] == 200]
        self.counts["refreshes"] = len(good)
        self.counts["refreshes refused"] = len(refreshes) - len(good)
        overlaps = overlapping(refreshes)
        self.counts["refreshes at the same time"] = len(overlaps)
        self.breaches += [f"refreshes at the same time: {one}" for one in overlaps]
        lost, twice = second_uses(refreshes, [moment for gateway in self.gateways for moment in gateway.kills])
        self.counts["tokens lost in a kill"] = sum(lost.values())
        self.counts["refresh tokens used twice"] = len(twice)
        self.breaches += [f"a refresh token was used twice: {one}" for one in twice]
        consents = Counter(
            str(one["account"]) for one in events if one["event"] == "authorization_code" and one["status"] == 200
        )
        self.counts["consents"] = sum(consents.values())
        for account in self._accounts():
            expected = 0 if account == NOBODY else 1 + (account == self.revoked_account) + lost[account]
            self.require(consents[account] == expected, f"{consents[account]} consents of {account}, not {expected}")
            if account != self.revoked_account and not lost[account]:
                self.require(not self.needs_login[account], f"{account} had to sign in")
        refused = [moment for moment in self.needs_login[self.revoked_account] if moment > self.revoked_at]
        self.require(bool(refused), "the principal whose grant was revoked did not have to sign in")
        self.counts["seconds until needs_login"] = round(refused[0] - self.revoked_at) if refused else -1
        notes = [f"{name}: {line}" for name, server in self.servers.items() for line in server.notes()]
        foreign = [line for line in notes if "foreign" in line]
        self.counts["tokens at another server"] = len(foreign)
        self.breaches += foreign
        self.counts["tokens refused by the MCP servers"] = sum("refused" in line for line in notes)
        self.breaches += [
            f"the authorization server: {one['error']}" for one in events if one["event"] == "server_error"
        ]
        self._check_leaks()

    def _check_leaks(self) -> None:
        ledger, requests, answers = (self.folder / name for name in ("ledger.dump", "model.json", "answers.json"))
        dump_ledger(self.address, ledger)
        requests.write_text(json.dumps(self.model.requests, indent=1), encoding="utf-8")
        answers.write_text("\n".join(self._answers), encoding="utf-8")
        self.counts["requests to the model"] = len(self.model.requests)
        secrets = self.authorization.secrets()
        self.counts["tokens, codes and secrets searched for"] = len(set(secrets))
        files = {
            "logs": [one.log for one in self.gateways],
            "the ledger, with its traces": [ledger, *self.folder.glob("ledger.db*")],
            "requests to the model": [requests],
            "answers": [answers],
        }
        for where, searched in files.items():
            found = occurrences(secrets, searched)
            self.counts[f"found in {where}"] = len(found)
            self.breaches += [f"tokens in {where}: {one}" for one in found]
        # The search finds what is there.
        self.require(bool(occurrences(secrets, [self.authorization.folder / "secrets"])), "the search finds nothing")


Refresh = dict[str, Any]
"""A line of the authorization server's log about a refresh. Its moments are in milliseconds."""


def overlapping(refreshes: Sequence[Refresh]) -> list[tuple[Refresh, Refresh]]:
    """Return the refreshes of one account that were under way at the same moment: two processes renewed it."""
    by_client: defaultdict[str, list[Refresh]] = defaultdict(list)
    for one in refreshes:
        # Each account has registered a client of its own at each server.
        by_client[str(one.get("client"))].append(one)
    pairs = (pair for ones in by_client.values() for pair in pairwise(sorted(ones, key=lambda one: one["started"])))
    return [(earlier, later) for earlier, later in pairs if later["started"] < earlier["ended"]]


def second_uses(refreshes: Sequence[Refresh], kills: Sequence[float]) -> tuple[Counter[str], list[Refresh]]:
    """Return the refresh tokens that were used twice: by account where a kill explains it, and the others."""
    first_uses = {one["used"]: one for one in refreshes if one["status"] == 200}
    lost, unexplained = Counter[str](), list[Refresh]()
    for one in refreshes:
        first = first_uses.get(one.get("used"))
        if one["status"] == 200 or first is None:
            continue
        begun, recorded = first["started"] / 1000 - 1, first["ended"] / 1000 + _KILL_WINDOW
        if any(begun < kill < recorded for kill in kills):
            # The process died before it recorded the answer. No token is left that would suffice.
            lost[str(one["account"])] += 1
        else:
            unexplained.append(one)
    return lost, unexplained


_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "not_delivered: the authorization server was away": ("authorization server cannot be reached",),
    "not_delivered: the MCP server was away": ("not_delivered",),
    "unknown: the MCP server was killed in the call": ('"outcome": "unknown"', "unknown: it was sent"),
    "timeout: the call or its login took too long": ('"code": "timeout"',),
    "not offered yet by a gateway that has just started": ("tool_not_found", "unknown tool", "no such tool"),
}


def _without_ids(text: str) -> str:
    return _ID.sub("...", text)[:300]


def reply_of(messages: list[dict[str, Any]], tools: list[str]) -> Said:
    results = results_in(messages)
    wanted = next(str(one["content"]) for one in reversed(messages) if one["role"] == "user")
    return Said(f"The tool said: {results[-1]}") if results else Said(calls=[(wanted, {"seconds": 0.0})])


def _write_gateway(folder: Path, name: str, address: str, model: str) -> ServedGateway:
    port = free_port()
    text = _CONFIG.format(folder=folder, port=port, ledger=address, model=model, login_seconds=_LOGIN_SECONDS)
    for tenant in TENANTS:
        admin = _ADMIN.format(tenant)
        text += _ADMIN_KEY.format(name=admin, tenant=tenant, sha256=hashlib.sha256(admin.encode()).hexdigest())
    config = folder / f"{name}.toml"
    config.write_text(text, encoding="utf-8")
    return ServedGateway(config, port, {"FERRULE_CREDENTIALS_KEY": _KEY})


async def run_accounts(database: str, seconds: float, folder: Path, seed: int) -> Accounts:
    """Run everything on one database, and check what is left."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        is_sqlite = database == "sqlite"
        address = str(folder / "ledger.db") if is_sqlite else stack.enter_context(postgres_server()).address
        authorization = AuthorizationServer(folder / "authorization")
        stack.callback(authorization.stop)
        issuers = {OWN: authorization.url, TEAM: authorization.url, OPEN: ""}
        servers = {name: McpServer(folder / name, name=name, issuer=issuer) for name, issuer in issuers.items()}
        accounts = {OWN: "principal", TEAM: "tenant"}
        entries: dict[str, Any] = {}
        for name, server in servers.items():
            stack.callback(server.stop)
            entries[name] = {"url": f"{server.url}/mcp", "readOnly": True}
            entries[name] |= {"oauth": {"account": accounts[name]}} if name in accounts else {}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
        model = stack.enter_context(scripted_model(reply_of))
        gateways = [_write_gateway(folder, name, address, model.url) for name in ("first", "second")]
        for gateway in gateways:
            stack.callback(gateway.kill)
        async with aiohttp.ClientSession() as session:
            run = Accounts(
                database=database,
                seconds=seconds,
                folder=folder,
                address=address,
                gateways=gateways,
                authorization=authorization,
                servers=servers,
                model=model,
                session=session,
                chance=random.Random(seed),
            )
            try:
                await run.run()
            # Whatever ends a run early is a finding, and must not end the run on the other database.
            except Exception as error:
                kind = error.message if isinstance(error, FerruleError) else repr(error)
                run.breaches.append(f"the run ended early: {kind:.500}")
        for gateway in gateways:
            gateway.kill()
        run.counts["token seconds"] = TOKEN_SECONDS
        run.check()
        return run
