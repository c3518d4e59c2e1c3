"""The Prefect server of one command, as a program: `gristmill.server.process` starts it on a socket of its own.

    python -m gristmill.server.app FD

Prefect's own `prefect server start` takes 4.2 s of CPU time to answer, this 2.2 s. Nobody can look at a server that
is gone with its command, so it has no pages, no scheduler, no automations and no live streams; runs, task runs,
artifacts, logs and events are recorded as ever.
"""

import gc
import socket
import sys

# What a server of Prefect's does beside recording. Settings of the user's own have the upper hand.
SETTINGS = {
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_EVENTS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
    # `gristmill serve` registers them; without the memo, since that would tell it that they are.
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}

# The routers that a flow's run asks.
_ASKED = frozenset({"/flows", "/flow_runs", "/artifacts", "/admin", "/events"})


def main() -> None:
    """Answers on the given listening socket until SIGTERM."""
    # A fifth of the imports' time went into looking for garbage among what stays for good.
    gc.disable()
    import uvicorn
    from prefect.logging import configuration
    from prefect.server.api import server as api
    from prefect.settings import Settings

    # A request is tried against one router after the other, and each builds its routes when it is first tried.
    api.API_ROUTERS = sorted(api.API_ROUTERS, key=lambda router: router.prefix not in _ASKED)  # type: ignore[assignment]
    # Both write out all settings, .15 s each time: to tell apps of other settings apart, and for logs that go nowhere.
    Settings.hash_key = lambda self: str(id(self))  # type: ignore[method-assign]
    configuration.setup_logging = lambda incremental=None: {}
    app = api.create_app(ephemeral=True)
    gc.freeze()
    gc.enable()
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    server.run(sockets=[socket.socket(fileno=int(sys.argv[1]))])


if __name__ == "__main__":
    main()
