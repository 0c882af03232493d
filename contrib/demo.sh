#!/usr/bin/env bash
# Show the main job: three real MCP servers, ten clients each, one process per server. Sets up what it needs, and leaves
# nothing running. --thirty really starts the thirty separate servers for comparison.
set -euo pipefail
# shellcheck source=contrib/setup.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"

ensure_home
ensure_system bwrap=bubblewrap git=git
require git "one of the servers of the demo reads a repository"
install_project demo
cd "$root"
PATH=$venv/bin:$PATH exec "$venv/bin/python" -m contrib.demo "$@"
