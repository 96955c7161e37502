"""A person with a browser who signs in to an MCP server through the gateway, and consents."""

from __future__ import annotations

import re
from typing import Final

import aiohttp

from ferrule.errors import FerruleError

_FORM: Final = re.compile(r'<form[^>]*action="([^"]+)"')
_PROMPT: Final = re.compile(r'name="prompt" value="([^"]+)"')
_MAX_PAGES: Final = 5


class SignInFailedError(FerruleError):
    """The login did not end with the gateway's page."""

    code = "bench_sign_in_failed"


async def sign_in(gateway: str, server: str, key: str, account: str) -> None:
    """Begin a login with a key, and finish it as an account of the authorization server."""
    # A browser of its own: another person's session must not consent for this one. Cookies for addresses are unsafe
    # only where somebody else could have the address.
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        begun = await _begin(session, f"{gateway}/v1/sources/{server}/login", key)
        if not begun:
            return
        url, fields = begun, dict[str, str]()
        for _ in range(_MAX_PAGES):
            method = "POST" if fields else "GET"
            async with session.request(method, url, data=fields or None) as answer:
                page, status, url = await answer.text(), answer.status, str(answer.url)
            form, prompt = _FORM.search(page), _PROMPT.search(page)
            if form is None or prompt is None:
                break
            url = form[1]
            fields = {"prompt": prompt[1]}
            fields |= {"login": account, "password": "x"} if prompt[1] == "login" else {}
        else:
            raise SignInFailedError("the authorization server asks without an end")
        if "Login received" not in page:
            raise SignInFailedError(f"{url} answered {status}: {page:.300}")


async def _begin(session: aiohttp.ClientSession, url: str, key: str) -> str:
    """The address to open; empty if the account is signed in."""
    async with session.post(url, headers={"authorization": f"Bearer {key}"}) as answer:
        body = await answer.json()
        if answer.status != 200:
            raise SignInFailedError(f"{url} answered {answer.status}: {body}")
        return body["url"] or ""
