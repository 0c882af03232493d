"""Antigravity: a file that its editor and its command line share, older ones of each, and one of the project.

An entry with an URL is reached by it, whatever command it has. A server gets ``${workspaceFolder}`` as it is written.

https://antigravity.google/docs/mcp
https://developer.mescius.com/mcp/docs/configure-your-ai-client/command-line-clients/google-antigravity-cli
https://docs.rs/crate/agent-config/0.2.0/source/docs/agents/antigravitycli.md (the command line, the project)
https://github.com/stbenjam/skillsaw/blob/main/docs/rules/antigravity-mcp-valid.md (an URL wins)
https://discuss.ai.google.dev/t/please-provide-env-for-current-project-base-dir-to-mcp-servers/119313 (the workspace)
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_home, in_project
from supervisord_mcp.hosts.entry import Scope

ANTIGRAVITY = Host(
    key="antigravity",
    title="Antigravity",
    dialect=Dialect(url_wins=True),
    places=(
        Place(in_home(".gemini/config/mcp_config.json")),
        Place(in_home(".gemini/antigravity/mcp_config.json"), label="editor"),
        Place(in_home(".gemini/antigravity-cli/mcp_config.json"), label="CLI"),
        Place(in_project(".agents/mcp_config.json", ".agent/mcp_config.json"), Scope.PROJECT),
    ),
    sources=("https://antigravity.google/docs/mcp",),
)
