"""Waits for what nobody reports."""

import asyncio


async def until(condition, limit_s=20.0):
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
