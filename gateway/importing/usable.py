"""Switch off what cannot work on this machine: listeners and bridges whose files for TLS are missing or unusable.

So the configuration that is written starts everywhere, and the report says what to do for the rest.
"""

from typing import Any

from pydantic import ValidationError

from sluicegate.gateway.config.sections.listeners import Listeners
from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge
from sluicegate.gateway.config.settings.bridges import settings_of
from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.report import Setting


def switch_off_unusable(imported: Imported) -> None:
    """Look for the files of a configuration, and note what is switched off."""
    for name, listener in imported.configuration.get("listeners", {}).items():
        problem = _listener_problem(name, listener)
        if problem:
            listener["enabled"] = False
            imported.report.not_taken(
                Setting(f"listeners.{name}", ""),
                f"written with enabled: false: {problem}; set it to true when it is there",
            )
    vpns = {"": imported.configuration, **imported.configuration.get("vpns", {})}
    for vpn, section in vpns.items():
        for bridge in section.get("bridges", ()):
            problem = _bridge_problem(bridge, imported)
            if problem:
                bridge["enabled"] = False
                where = f"vpns.{vpn}.bridges" if vpn else "bridges"
                imported.report.not_taken(
                    Setting(f"{where}: {bridge['name']}", ""),
                    f"written with enabled: false: {problem}; set it to true when it is there",
                )


def _listener_problem(name: str, listener: dict[str, Any]) -> str:
    if not name.endswith("_tls") or not listener.get("enabled"):
        return ""
    try:
        Listeners.model_validate({name: listener})
    except ValidationError as error:
        return "; ".join(str(each.get("ctx", {}).get("error", each["msg"])) for each in error.errors())
    return ""


def _bridge_problem(bridge: dict[str, Any], imported: Imported) -> str:
    if bridge.get("enabled") is False:
        return ""
    own = f"{imported.secrets.folder}/"
    # Its password is written beside the configuration, and is not there yet.
    values = {key: value for key, value in bridge.items() if not (key == "password_file" and value.startswith(own))}
    try:
        settings_of(Bridge.model_validate(values), node="node", vpn="default")
    except ValidationError:
        return ""  # check-config says it, with the line
    except ValueError as error:
        return str(error)
    return ""
