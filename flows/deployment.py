"""Deployments of the refresh flow: registered with Prefect's API, served by a runner on this machine.

Parameters name files and addresses only; keys stay in the environment of the serving process.
"""

import asyncio
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.runner import Runner

from flows.refresh import refresh
from schemas.errors import UserError

_TAG = "gristmill"


def schedule(cron: str) -> CronSchedule:
    """The schedule of a cron line; UserError when it is none."""
    try:
        return CronSchedule(cron=cron)
    except ValueError as error:
        raise UserError(
            f"--cron '{cron}' is not a cron line.", 'Five fields: minute hour day month weekday, such as "0 3 * * *".'
        ) from error


def register(name: str, recipe: str, cron: str, overrides: list[str], lake: str, out: str) -> None:
    """Creates or updates deployment refresh/<name>; UserError when the cron line is not one."""
    parameters: dict[str, object] = {
        "recipe": str(Path(recipe).resolve()),
        "lake": lake if "://" in lake else str(Path(lake).resolve()),
        "overrides": list(overrides),
        "out": str(Path(out).resolve()) if out else "",
    }
    _deployment(name, schedule(cron).cron, parameters).apply()


def _deployment(name: str, cron: str, parameters: dict[str, object]) -> RunnerDeployment:
    return RunnerDeployment.from_flow(
        refresh,
        name=name,
        cron=cron,
        parameters=parameters,
        tags=[_TAG],
        # A tick that comes while the last refresh still runs waits for it: the ledger would make it a no-op anyway.
        concurrency_limit=1,
    )


def serve(limit: int) -> None:
    """Runs every registered refresh on its schedule until interrupted; UserError when there is none."""
    asyncio.run(_serve(limit))


async def _serve(limit: int) -> None:
    runner = Runner(name="gristmill", limit=limit, query_seconds=5, pause_on_shutdown=False)
    async with get_client() as client:
        found = await client.read_deployments(
            deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[_TAG]))
        )
    served = 0
    for deployment in found:
        for entry in deployment.schedules:
            if isinstance(entry.schedule, CronSchedule):
                await runner.aadd_deployment(
                    _deployment(deployment.name, entry.schedule.cron, dict(deployment.parameters))
                )
                served += 1
    if not served:
        raise UserError(
            "Nothing is deployed in this lake.",
            todo='Deploy a recipe first: gristmill deploy RECIPE --cron "0 3 * * *"',
        )
    await runner.start()
