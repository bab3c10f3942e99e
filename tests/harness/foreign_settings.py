"""Every environment variable that Faust, mode and prometheus_client read, with a value that would do harm."""

from faust.types.settings import Settings

from app.base.process import foreign_settings

#: Variables of Faust's settings.
OF_SETTINGS = {param.env_name for param in Settings.SETTINGS.values() if param.env_name}
#: Settings of both Faust and Punctual.
OURS = {"DATADIR"}
#: What Kubernetes sets for a Service whose name fits.
_SERVICE = "tcp://10.0.0.1:80"
#: Faust reads these while it is imported, before our code runs, so only values without an error are possible.
_AT_IMPORT = {
    "BLOCKING_TIMEOUT": "0.001",
    "CONSOLE_PORT": "1",
    "WEB_PORT": "1",
    "WORKDIR": "/tmp",  # noqa: S108 - no file is written there
    "LOOP": "uvloop",
}

HOSTILE = {
    **dict.fromkeys(OF_SETTINGS - OURS, _SERVICE),
    **{
        name: _AT_IMPORT.get(name.removeprefix("FAUST_").removeprefix("F_"), "1") for name in foreign_settings.AT_IMPORT
    },
    **dict.fromkeys(foreign_settings.LATER, "nowhere.settings"),
    "WEB_BIND": "0.0.0.0",  # noqa: S104 - it must not be listened on
    "BROKER_URL": "kafka://127.0.0.1:1",
    "APP_VERSION": "1.4.2",
}
