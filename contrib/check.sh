#!/usr/bin/env bash
# Set up everything that the tests need and run all checks. With arguments, run only pytest with them.
# HYPOTHESIS_PROFILE=deep looks much longer for a counterexample, and does what field cases ask for in whole numbers:
# a thousand rounds, a gigabyte.
set -euo pipefail
# shellcheck source=contrib/setup.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"

ensure_home
ensure_system bwrap=bubblewrap git=git node=nodejs npx=npm gcc=build-essential tmux=tmux \
    gnome-keyring-daemon=gnome-keyring dbus-run-session=dbus dbus-send=dbus pass=pass gpg=gnupg pkg-config=pkg-config
# The extra systemd is built from source.
ensure_library libsystemd=libsystemd-dev
ensure_headers
# By themselves: a distribution that has no such package must not go without the others.
ensure_system chromium=chromium
ensure_system podman=podman newuidmap=uidmap catatonit=catatonit runc=runc
ensure_person smcp-podman
# Without the services that come with them: the tests start their own, and nobody asked for more on this machine.
ensure_quiet() { # PROGRAM=PACKAGE SERVICE…
    # Services are where only root looks; one that somebody uses on this machine must not be ended.
    if PATH=$PATH:/usr/sbin:/sbin command -v "${1%%=*}" >/dev/null; then return; fi
    ensure_system "$1"
    if may_install && [ -d /run/systemd/system ]; then
        local as_root=(sudo -n)
        [ "$(id -u)" = 0 ] && as_root=()
        "${as_root[@]}" systemctl disable --quiet --now "${@:2}" 2>/dev/null || true
    fi
}
ensure_quiet promtool=prometheus prometheus prometheus-node-exporter
ensure_quiet dockerd=docker.io docker.socket docker containerd
ensure_quiet docker-registry=docker-registry docker-registry
ensure_quiet sshd=openssh-server ssh ssh.socket
ensure_system ssh=openssh-client
require git "tests run a server that reads a repository"
install_project dev
install_extra systemd
cd "$root"
export PATH=$venv/bin:$PATH HYPOTHESIS_PROFILE=${HYPOTHESIS_PROFILE:-fast}

# In minutes. A worker that crashed can leave pytest-xdist waiting for ever, which no limit of a single test ends.
limit=60
[ -z "${SMCP_SLOW:-}" ] || limit=240
if [ "$HYPOTHESIS_PROFILE" = deep ]; then
    limit=1440
    export PYTEST_ADDOPTS="-o faulthandler_timeout=3600 ${PYTEST_ADDOPTS:-}"
fi
if [ $# -gt 0 ]; then
    exec pytest "$@"
fi

failed=()
check() {
    say "$*"
    "$@" || failed+=("$*")
}
check ruff check --quiet
check ruff format --quiet --check
check mypy --no-error-summary
# Downloads of minutes, which no test should wait for.
check python -m contrib.matrix --install
check python -m contrib.hosts
# One file after the other in each process: what a file prepares for its tests is prepared once.
# In a place whose name is short: sockets are made in it, and a socket's path has 107 bytes.
scratch=$(mktemp -d /tmp/smcp-XXXXXX)
trap 'rm -rf -- "$scratch"' EXIT
check python -m contrib.within "$limit" \
    pytest --basetemp="$scratch/t" --numprocesses=logical --maxprocesses=4 --dist=loadfile --cov --cov-report=
# Decisions are pure, so every branch of them can be tested; the rest is proven end to end.
check coverage report --include='supervisord_mcp/protocol/*,supervisord_mcp/policy/*' --fail-under=100
[ ${#failed[@]} = 0 ] || fail "failed:" "${failed[@]/#/  }"
