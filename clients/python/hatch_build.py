"""Puts the scripts into the package. They are kept once, in the repository's folder scripts; an sdist has its own."""

from pathlib import Path
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ScriptsHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        if (Path(self.root) / "src/sluice_redis/scripts").exists():
            return  # an sdist
        scripts = Path(self.root).parents[1] / "scripts"
        target = "src/sluice_redis/scripts" if self.target_name == "sdist" else "sluice_redis/scripts"
        for path in [*scripts.glob("*.lua"), scripts / "manifest.json"]:
            build_data["force_include"][str(path)] = f"{target}/{path.name}"
