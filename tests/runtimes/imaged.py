"""The runtime of containers for checks that know nothing of images: whatever is launched is launched in one image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from supervisord_mcp.runtimes.base import Child, Container, LaunchSpec
from supervisord_mcp.runtimes.container.engine import Engines
from supervisord_mcp.runtimes.container.runtime import ContainerRuntime


class ImagedRuntime(ContainerRuntime):
    """Starts everything in containers of the same image."""

    def __init__(self, place: Path, engines: Engines, image: str) -> None:
        super().__init__(place, engines)
        self._image = image

    def explain(self, spec: LaunchSpec) -> str:
        return super().explain(self._with_image(spec))

    async def launch(self, spec: LaunchSpec) -> Child:
        return await super().launch(self._with_image(spec))

    def _with_image(self, spec: LaunchSpec) -> LaunchSpec:
        return spec if spec.container is not None else replace(spec, container=Container(self._image))
